#include "compress/cost/link_model.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/thread_communicator.h"

namespace terngrad::link_model_test {
namespace {

TEST(LinkModel, TimeIsLatencyForEachRoundAndBytes) {
  EXPECT_EQ((LinkModel{0.5, 100}).seconds(3, 200), 3.5);
  EXPECT_EQ((LinkModel{0.5, std::numeric_limits<double>::infinity()}).seconds(2, 1e12), 1);
}

TEST(FitLink, FindsWhatTheTimesWereMadeOf) {
  std::vector<LinkSample> samples;
  for (const double bytes : {1e3, 1e4, 1e5, 1e6, 1e7}) samples.push_back({bytes, 2e-4 + bytes / 125e6});
  const LinkModel link = fit_link(samples);
  EXPECT_NEAR(link.latency_seconds, 2e-4, 1e-12);
  EXPECT_NEAR(link.bytes_per_second, 125e6, 1);
}

TEST(FitLink, SquaresOfErrorsCountRelativeToTheTime) {
  // Two short rounds of equal size and a long one: with weights 1 / t the line passes through the harmonic mean of the
  // short ones, (1 + 1) / (1 + 1 / 3) = 1.5 seconds, and through the long one.
  const std::vector<LinkSample> samples = {{0, 1}, {0, 3}, {100, 21.5}};
  const LinkModel link = fit_link(samples);
  EXPECT_NEAR(link.latency_seconds, 1.5, 1e-12);
  EXPECT_NEAR(link.bytes_per_second, 5, 1e-12);
}

TEST(FitLink, ALatencyBelowZeroBecomesZero) {
  // Fit through the origin with weights 1 / t: b = sum(x) / sum(x^2 / t).
  const std::vector<LinkSample> samples = {{1, 1}, {2, 3}};
  const LinkModel link = fit_link(samples);
  EXPECT_EQ(link.latency_seconds, 0);
  EXPECT_NEAR(link.bytes_per_second, (1 + 4.0 / 3) / 3, 1e-12);
}

TEST(FitLink, ABurstDoesNotHideTheBandwidth) {
  // Measured at 100 Mbit/s (95.6 for data), with a token bucket of 64 KB that lets short messages pass.
  const std::vector<LinkSample> samples = {{1024, 428e-6},     {4096, 114e-6},     {16384, 562e-6},
                                           {65536, 5.137e-3},  {262144, 21.49e-3}, {1048576, 87.9e-3},
                                           {4194304, 362.5e-3}};
  EXPECT_NEAR(8e-6 * fit_link(samples).bytes_per_second, 95.6, 5);
}

TEST(FitLink, TimesThatDoNotGrowHaveNoBandwidth) {
  const std::vector<LinkSample> samples = {{1, 2}, {1000, 2}};
  const LinkModel link = fit_link(samples);
  EXPECT_EQ(link.latency_seconds, 2);
  EXPECT_EQ(link.bytes_per_second, std::numeric_limits<double>::infinity());
}

TEST(FitLink, BoundsAreOfTheEndsOfTheSpreads) {
  const std::vector<LinkSample> samples = {{1000, 3, {2, 4}}, {2000, 5, {3, 8}}};
  const LinkBounds bounds = fit_link_bounds(samples);
  EXPECT_NEAR(bounds.fast.latency_seconds, 1, 1e-12);
  EXPECT_NEAR(bounds.fast.bytes_per_second, 1000, 1e-9);
  EXPECT_NEAR(bounds.slow.latency_seconds, 0, 1e-12);
  EXPECT_NEAR(bounds.slow.bytes_per_second, 250, 1e-9);
  // Samples without a spread give equal bounds.
  const LinkBounds none = fit_link_bounds(std::vector<LinkSample>{{1000, 3}, {2000, 5}});
  EXPECT_NEAR(none.fast.latency_seconds, 1, 1e-12);
  EXPECT_EQ(none.fast.bytes_per_second, none.slow.bytes_per_second);
}

TEST(FitLink, RefusesTooLittle) {
  EXPECT_THROW(fit_link({}), InvalidArgument);
  EXPECT_THROW(fit_link(std::vector<LinkSample>{{5, 1}, {5, 2}}), InvalidArgument);
  EXPECT_THROW(fit_link(std::vector<LinkSample>{{5, 1}, {6, 0}}), InvalidArgument);
}

/// All-gathers take at least `per_byte` for each byte that a rank sends.
class SlowCommunicator final : public Communicator {
 public:
  SlowCommunicator(std::shared_ptr<Communicator> inner, std::chrono::nanoseconds per_byte)
      : inner_(std::move(inner)), per_byte_(per_byte) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Parcels& mine, Parcels& all) override {
    std::this_thread::sleep_for(per_byte_ * static_cast<std::int64_t>(mine.storage().size()) * (size() - 1));
    inner_->all_gather(mine, all);
  }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override { inner_->all_to_all(outgoing, incoming); }
  void all_reduce_sum(std::span<std::uint64_t> values) override { inner_->all_reduce_sum(values); }
  void all_reduce_max(std::span<std::uint32_t> values) override { inner_->all_reduce_max(values); }
  void broadcast(std::span<std::uint8_t> values, int root) override { inner_->broadcast(values, root); }
  void barrier() override { inner_->barrier(); }

 private:
  std::shared_ptr<Communicator> inner_;
  std::chrono::nanoseconds per_byte_;
};

TEST(MeasureLink, AllRanksGetTheSameGrowingSamples) {
  std::mutex mutex;
  std::vector<std::vector<LinkSample>> of_ranks;
  const auto errors = testing::run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    // Each round takes at least 1 us per byte, whatever the machine's load.
    SlowCommunicator slow(communicator, std::chrono::microseconds(1));
    auto samples = measure_link(slow, {.max_bytes = 1 << 20, .enough_seconds = 0.02, .repetitions = 2});
    const std::lock_guard lock(mutex);
    of_ranks.push_back(std::move(samples));
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  ASSERT_EQ(of_ranks.size(), 3u);
  for (const std::vector<LinkSample>& samples : of_ranks) {
    ASSERT_EQ(samples.size(), of_ranks[0].size());
    ASSERT_GE(samples.size(), 2u);
    // 8 KiB in all take 8 ms; messages four times as large would exceed the limit.
    EXPECT_LE(samples.size(), 3u);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i].bytes, 2 * 1024 * (i == 0 ? 1 : i == 1 ? 4 : 16));
      EXPECT_GE(samples[i].seconds, samples[i].bytes * 1e-6);
      EXPECT_EQ(samples[i].seconds, of_ranks[0][i].seconds);
      EXPECT_LE(samples[i].spread.low, samples[i].seconds);
      EXPECT_GE(samples[i].spread.high, samples[i].seconds);
      EXPECT_GT(samples[i].spread.low, 0);
    }
  }
}

TEST(MeasureLink, StopsAtTheMaxSize) {
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const auto samples = measure_link(*communicator, {.max_bytes = 20000, .enough_seconds = 1e6, .repetitions = 1});
    ASSERT_EQ(samples.size(), 3u);
    EXPECT_EQ(samples.back().bytes, 16 * 1024);
    EXPECT_EQ(samples.back().spread, Spread{});
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(MeasureLink, RefusesAGroupOfOneAndEmptyRanges) {
  const auto self = make_self_communicator();
  EXPECT_THROW(measure_link(*self), InvalidArgument);
  for (const LinkMeasureOptions& options :
       {LinkMeasureOptions{.repetitions = 0}, LinkMeasureOptions{.enough_seconds = 0},
        LinkMeasureOptions{.max_bytes = 4095}}) {
    testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
      EXPECT_THROW(measure_link(*communicator, options), InvalidArgument);
    });
  }
}

}  // namespace
}  // namespace terngrad::link_model_test
