#include "trainers/loop/floating_epochs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::floating_epochs_test {
namespace {

TEST(IsFloatingStep, IsTheLastOfEveryPeriodOfEpochs) {
  // 10 examples in batches of 4: epochs start at steps 0, 2.5, 5, 7.5, ...
  std::string floating;
  for (std::uint64_t step = 0; step < 16; ++step) floating += is_floating_step(step, 4, 10, 3) ? 'F' : '.';
  EXPECT_EQ(floating, ".....FFF.....FF.");  // epoch 2 from step 5, epoch 5 from step 12.5
  for (std::uint64_t step = 0; step < 16; ++step) EXPECT_TRUE(is_floating_step(step, 4, 10, 1));
  // Batches of several epochs.
  EXPECT_FALSE(is_floating_step(0, 30, 10, 2));
  EXPECT_TRUE(is_floating_step(1, 30, 10, 2));
}

TEST(IsFloatingStep, IsExactForTheLargestNumbers) {
  constexpr std::uint64_t kLast = (std::uint64_t{1} << 40) - 1;
  constexpr std::int64_t kBatch = 2147483647;
  // One example per epoch: epoch = step * batch, odd * odd.
  EXPECT_TRUE(is_floating_step(kLast, kBatch, 1, 2));
  EXPECT_FALSE(is_floating_step(kLast - 1, kBatch, 1, 2));
  EXPECT_EQ(is_floating_step(kLast, kBatch, 1, INT64_MAX), false);
}

TEST(IsFloatingStep, RefusesWhatIsNoEpoch) {
  EXPECT_THROW(is_floating_step(0, 0, 1, 1), InvalidArgument);
  EXPECT_THROW(is_floating_step(0, 1, 0, 1), InvalidArgument);
  EXPECT_THROW(is_floating_step(0, 1, 1, 0), InvalidArgument);
}

/// A strategy that records its calls.
class Probe final : public Strategy {
 public:
  Probe(std::string name, float mark) : name_(std::move(name)), mark_(mark) {}
  const std::string& name() const override { return name_; }
  StrategyResult combine(std::span<const TensorTable>, std::span<float> mean, std::uint64_t step) override {
    mean[0] = mark_ + static_cast<float>(step);
    StrategyResult result;
    result.report.gradient.sent = static_cast<std::int64_t>(mark_);
    result.skip = step == 3;
    return result;
  }
  float decode_sent(int worker, int segment, std::span<float> out) override {
    out[0] = static_cast<float>(10 * worker + segment);
    return mark_;
  }
  BucketedExchange* in_buckets(std::uint64_t step) override {
    asked.push_back(step);
    return nullptr;
  }

  std::vector<std::uint64_t> asked;

 private:
  std::string name_;
  float mark_;
};

TEST(FloatingEpochs, StepsInBucketsAreThoseOfTheirStrategyToo) {
  auto compressed = std::make_unique<Probe>("compressed", 100.0f);
  auto floating = std::make_unique<Probe>("floating", 200.0f);
  const Probe& of_compressed = *compressed;
  const Probe& of_floating = *floating;
  const auto strategy =
      make_floating_epochs_strategy(std::move(compressed), std::move(floating), [](std::uint64_t s) { return s >= 2; });
  std::vector<float> sent(1);
  for (const std::uint64_t step : {0u, 1u, 2u, 3u, 1u}) {
    strategy->in_buckets(step);
    EXPECT_EQ(strategy->decode_sent(0, 0, sent), step >= 2 ? 200.0f : 100.0f);
  }
  EXPECT_EQ(of_compressed.asked, (std::vector<std::uint64_t>{0, 1, 1}));
  EXPECT_EQ(of_floating.asked, (std::vector<std::uint64_t>{2, 3}));
}

TEST(FloatingEpochs, EveryStepIsThatOfItsStrategy) {
  const auto strategy = make_floating_epochs_strategy(std::make_unique<Probe>("compressed", 100.0f),
                                                      std::make_unique<Probe>("floating", 200.0f),
                                                      [](std::uint64_t s) { return s >= 2; });
  EXPECT_EQ(strategy->name(), "compressed");
  std::vector<float> mean(1);
  std::vector<float> sent(1);
  for (const std::uint64_t step : {0u, 1u, 2u, 3u, 1u}) {
    const float mark = step >= 2 ? 200.0f : 100.0f;
    const StrategyResult result = strategy->combine({}, mean, step);
    EXPECT_EQ(mean[0], mark + static_cast<float>(step));
    EXPECT_EQ(result.report.gradient.sent, static_cast<std::int64_t>(mark));
    EXPECT_EQ(result.skip, step == 3);
    EXPECT_EQ(strategy->decode_sent(2, 5, sent), mark);
    EXPECT_EQ(sent[0], 25.0f);
  }
}

}  // namespace
}  // namespace terngrad::floating_epochs_test
