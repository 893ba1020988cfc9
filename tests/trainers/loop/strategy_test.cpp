#include "trainers/loop/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::strategy_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;
using testing::message_of;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Layout two_tensors() {
  Layout layout;
  layout.add("a", {3});
  layout.add("b", {2});
  return layout;
}

/// A gradient of two_tensors, its strategy and the results.
struct Fixture {
  explicit Fixture(std::vector<float> a_values, std::vector<float> b_values)
      : a(std::move(a_values)), b(std::move(b_values)), mean(static_cast<std::size_t>(layout.flat_elements()), 99.0f) {}
  std::vector<TensorTable> tables() {
    float* const tensors[] = {a.data(), b.data()};
    return {TensorTable(layout, tensors)};
  }
  std::vector<float> mean_of(int segment) const {
    const Segment& s = layout.segment(segment);
    return {mean.begin() + s.offset, mean.begin() + s.offset + s.num_elements};
  }
  Layout layout = two_tensors();
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> mean;
};

std::unique_ptr<Strategy> replicated(const Layout& layout, OnNonfinite on_nonfinite) {
  CompressedAllReduceOptions options;
  options.codecs.codec = "fp32";
  options.on_nonfinite = on_nonfinite;
  return make_replicated_strategy(
      layout, std::make_unique<CompressedAllReduce>(layout, make_worker_group(1, make_self_communicator()), options));
}

TEST(SimpleStrategy, AppliesTheGradientAsItIs) {
  Fixture f({1.5f, -0.0f, 1e-42f}, {-2.0f, 3.0f});
  const auto strategy = make_simple_strategy(f.layout);
  EXPECT_EQ(strategy->name(), "simple");
  const StrategyResult result = strategy->combine(f.tables(), f.mean, 0);
  EXPECT_FALSE(result.skip);
  EXPECT_EQ(result.report.sent_bytes() + result.report.received_bytes(), 0);
  EXPECT_EQ(bits_of(f.mean_of(0)), bits_of(f.a));
  EXPECT_EQ(bits_of(f.mean_of(1)), bits_of(f.b));
  // Padding between tensors stays unchanged.
  EXPECT_EQ(f.mean[3], 99.0f);
  std::vector<float> sent(2);
  EXPECT_EQ(strategy->decode_sent(0, 1, sent), 0.0f);
  EXPECT_EQ(bits_of(sent), bits_of(f.b));
}

TEST(SimpleStrategy, IsForOneWorker) {
  Fixture f({1, 2, 3}, {4, 5});
  const auto strategy = make_simple_strategy(f.layout);
  std::vector<TensorTable> tables = f.tables();
  tables.push_back(tables[0]);
  EXPECT_THROW(strategy->combine(tables, f.mean, 0), InvalidArgument);
}

TEST(SimpleStrategy, EqualsAnExchangeOfOneWorkerToTheBit) {
  Fixture simple({1.5f, -0.0f, 1e-42f}, {-2.0f, 3e38f});
  Fixture exchanged(simple.a, simple.b);
  make_simple_strategy(simple.layout)->combine(simple.tables(), simple.mean, 7);
  replicated(exchanged.layout, OnNonfinite::kStop)->combine(exchanged.tables(), exchanged.mean, 7);
  for (const int segment : {0, 1}) EXPECT_EQ(bits_of(simple.mean_of(segment)), bits_of(exchanged.mean_of(segment)));
}

TEST(Strategy, StopsOnNonfiniteNamingStepTensorAndWorker) {
  for (const float bad : {kInf, -kInf, kNan, -kNan}) {
    Fixture f({1, 2, 3}, {4, bad});
    const auto simple = make_simple_strategy(f.layout);
    const std::string message = message_of<NonFiniteError>([&] { simple->combine(f.tables(), f.mean, 12); });
    EXPECT_EQ(message, "step 12: tensor 'b' of worker 0 holds NaN or infinity, or is too large for the codec");
    const auto exchange = replicated(f.layout, OnNonfinite::kStop);
    EXPECT_EQ(message_of<NonFiniteError>([&] { exchange->combine(f.tables(), f.mean, 12); }), message);
  }
  Fixture f({kNan, 2, 3}, {4, kInf});
  EXPECT_EQ(message_of<NonFiniteError>([&] { make_simple_strategy(f.layout)->combine(f.tables(), f.mean, 0); }),
            "step 0: tensor 'a' of worker 0 holds NaN or infinity, or is too large for the codec (and 1 more)");
}

TEST(Strategy, SkipsOnNonfinite) {
  Fixture f({1, kNan, 3}, {4, 5});
  for (const bool is_simple : {true, false}) {
    const auto strategy =
        is_simple ? make_simple_strategy(f.layout, OnNonfinite::kSkip) : replicated(f.layout, OnNonfinite::kSkip);
    const StrategyResult result = strategy->combine(f.tables(), f.mean, 2);
    EXPECT_TRUE(result.skip);
    EXPECT_TRUE(result.report.skipped);
    EXPECT_EQ(result.report.nonfinite,
              "step 2: tensor 'a' of worker 0 holds NaN or infinity, or is too large for the codec");
    // The next step works normally.
    Fixture good({1, 2, 3}, {4, 5});
    const StrategyResult next = strategy->combine(good.tables(), good.mean, 3);
    EXPECT_FALSE(next.skip);
    EXPECT_EQ(next.report.nonfinite, "");
    EXPECT_THAT(good.mean_of(0), ElementsAre(1, 2, 3));
  }
}

TEST(Strategy, CountsANonfiniteTensorAsZero) {
  for (const bool is_simple : {true, false}) {
    Fixture f({1, kInf, 3}, {4, 5});
    const auto strategy =
        is_simple ? make_simple_strategy(f.layout, OnNonfinite::kZero) : replicated(f.layout, OnNonfinite::kZero);
    const StrategyResult result = strategy->combine(f.tables(), f.mean, 2);
    EXPECT_FALSE(result.skip);
    EXPECT_FALSE(result.report.nonfinite.empty());
    EXPECT_THAT(f.mean_of(0), ElementsAre(0, 0, 0)) << is_simple;
    EXPECT_THAT(f.mean_of(1), ElementsAre(4, 5));
    std::vector<float> sent(3, 7.0f);
    strategy->decode_sent(0, 0, sent);
    EXPECT_THAT(sent, ElementsAre(0, 0, 0)) << is_simple;
  }
}

/// An exchange that records its arguments.
class ProbeExchange final : public GradientExchange {
 public:
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                          std::uint64_t step) override {
    mean.tensor(0)[0] = gradients[0].tensor(0)[0] + gradients[1].tensor(0)[0];
    mean.tensor(1)[1] = static_cast<float>(step);
    ExchangeReport report;
    report.gradient.sent = 123;
    report.skipped = step == 5;
    return report;
  }
  float decode_local(int local_worker, int segment, std::span<float> out) override {
    out[0] = static_cast<float>(10 * local_worker + segment);
    return 0.5f;
  }
};

TEST(ReplicatedStrategy, PassesThroughWhatTheExchangeGives) {
  Fixture f({1, 2, 3}, {4, 5});
  Fixture g({10, 20, 30}, {40, 50});
  const auto strategy = make_replicated_strategy(f.layout, std::make_unique<ProbeExchange>());
  EXPECT_EQ(strategy->name(), "replicated");
  std::vector<TensorTable> tables = f.tables();
  tables.push_back(g.tables()[0]);
  const StrategyResult result = strategy->combine(tables, f.mean, 4);
  EXPECT_EQ(f.mean_of(0)[0], 11.0f);
  EXPECT_EQ(f.mean_of(1)[1], 4.0f);
  EXPECT_EQ(result.report.sent_bytes(), 123);
  EXPECT_FALSE(result.skip);
  EXPECT_TRUE(strategy->combine(tables, f.mean, 5).skip);
  std::vector<float> sent(2);
  EXPECT_EQ(strategy->decode_sent(1, 1, sent), 0.5f);
  EXPECT_EQ(sent[0], 11.0f);
}

TEST(Strategy, InBucketsIsTheExchangesOwn) {
  const Layout layout = two_tensors();
  EXPECT_EQ(make_simple_strategy(layout)->in_buckets(0), nullptr);
  EXPECT_EQ(make_replicated_strategy(layout, std::make_unique<ProbeExchange>())->in_buckets(0), nullptr);
  CompressedAllReduceOptions options;
  options.codecs.codec = "fp32";
  auto exchange = std::make_unique<BucketedAllReduce>(layout, make_worker_group(1, make_self_communicator()), options,
                                                      Buckets{{1}, {0}});
  BucketedExchange* const expected = exchange.get();
  EXPECT_EQ(make_replicated_strategy(layout, std::move(exchange))->in_buckets(7), expected);
}

}  // namespace
}  // namespace terngrad::strategy_test
