#include "compress/exchange/mean_estimate.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/memory/shared_state.h"
#include "compress/plan/codec_plan.h"
#include "support/gradients.h"

namespace terngrad::mean_estimate_test {
namespace {

/// Tensors "a" and "b" in the memory of ef21, and "plain", whose codec is lossless.
struct Fixture {
  Layout layout;
  CompressedAllReduceOptions options;
  Stream stream;
  ExchangePeers peers{make_worker_group(2, make_self_communicator())};

  Fixture() {
    layout.add("a", {3});
    layout.add("plain", {2});
    layout.add("b", {1});
    options.on_nonfinite = OnNonfinite::kSkip;
    options.codecs.codec = "topk";
    options.codecs.rules = {{"plain", "fp32"}};
  }
  SharedState zeros() const { return {layout, CodecPlan(layout, with_workers(options.codecs, 2)), MemoryKind::kEf21}; }
};

TEST(MeanEstimate, AddsTheMeanOfTheMessages) {
  Fixture f;
  SharedState shared = f.zeros();
  NonfiniteFlags flags(OnNonfinite::kSkip, f.stream);
  MeanEstimate estimate(f.layout, {f.peers, f.options, f.stream, flags, shared}, {});
  for (int step = 1; step <= 2; ++step) {
    flags.begin_step(f.stream);
    testing::Tensors mean = testing::blank_tensors(f.layout);
    mean.values = {{1, 2, 3}, {4, 5}, {6}};
    estimate.apply(mean.table, f.stream);
    const auto times = static_cast<float>(step);
    EXPECT_EQ(mean.values[0], (std::vector<float>{times, 2 * times, 3 * times}));
    EXPECT_EQ(mean.values[1], (std::vector<float>{4, 5})) << "has no estimate";
    EXPECT_EQ(mean.values[2], (std::vector<float>{6 * times}));
    estimate.commit(f.stream);
    EXPECT_EQ(shared.find("b")[0], 6 * times);
  }
}

TEST(MeanEstimate, ReportsWhatOverflowsAndThenKeepsTheOldOne) {
  Fixture f;
  SharedState shared = f.zeros();
  NonfiniteFlags flags(OnNonfinite::kSkip, f.stream);
  MeanEstimate estimate(f.layout, {f.peers, f.options, f.stream, flags, shared}, {});
  constexpr float kMax = std::numeric_limits<float>::max();
  // The sum of an estimate and a mean that are finite; the mean of a tensor without an estimate.
  for (const bool is_sum : {true, false}) {
    flags.begin_step(f.stream);
    shared.find("a")[1] = is_sum ? kMax : 1;
    testing::Tensors mean = testing::blank_tensors(f.layout);
    mean.values = {{1, kMax / 2, 3}, {is_sum ? 0 : std::numeric_limits<float>::infinity(), 5}, {6}};
    estimate.apply(mean.table, f.stream);
    EXPECT_TRUE(flags.is_dropped(f.stream));
    EXPECT_EQ(flags.found(f.stream).means.count, 1u);
    estimate.commit(f.stream);
    EXPECT_EQ(shared.find("a")[1], is_sum ? kMax : 1);
    EXPECT_EQ(shared.find("b")[0], 0);
  }
}

}  // namespace
}  // namespace terngrad::mean_estimate_test
