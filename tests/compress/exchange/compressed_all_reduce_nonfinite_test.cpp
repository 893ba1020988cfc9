// NaN and infinity in gradients, and means that overflow.
#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::compressed_all_reduce_nonfinite_test {
namespace {

using ::testing::AllOf;
using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::ReferenceExchange;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

class OnNonfiniteTest : public ::testing::TestWithParam<ExchangeAlgorithm> {
 protected:
  Layout layout_ = mixed_layout();
  std::vector<Tensors> workers_ = worker_gradients(layout_, 3);
  Tensors mean_ = blank_tensors(layout_);
  ExchangeReport run(const CompressedAllReduceOptions& options) {
    CompressedAllReduce exchange = local_exchange(layout_, 3, options);
    return exchange.exchange(tables(workers_, 0, 3), mean_.table, 12);
  }
  void spoil(const char* tensor, int worker, float value) {
    workers_[static_cast<std::size_t>(worker)].values[static_cast<std::size_t>(layout_.find(tensor))].back() = value;
  }
};

TEST_P(OnNonfiniteTest, StopNamesTensorWorkerAndStep) {
  for (const char* tensor : {"fc/weights", "plain", "half"}) {
    workers_ = worker_gradients(layout_, 3);
    spoil(tensor, 2, std::numeric_limits<float>::quiet_NaN());
    try {
      run(options_of(GetParam()));
      FAIL() << "nothing was thrown";
    } catch (const NonFiniteError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(tensor), HasSubstr("worker 2"), HasSubstr("step 12")));
    }
  }
}

TEST_P(OnNonfiniteTest, SkipDropsTheStep) {
  spoil("plain", 1, std::numeric_limits<float>::infinity());
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kSkip;
  const ExchangeReport report = run(options);
  EXPECT_TRUE(report.skipped);
  EXPECT_THAT(report.nonfinite, AllOf(HasSubstr("plain"), HasSubstr("worker 1"), HasSubstr("step 12")));
}

TEST_P(OnNonfiniteTest, ZeroCountsTheTensorAsZeroAndStillDividesByN) {
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    if (sharing == ScalerSharing::kNone && GetParam() == ExchangeAlgorithm::kIntegerSum) continue;
    for (const auto& [scope, block] : {std::pair(ScalerScope::kLayer, 64), std::pair(ScalerScope::kModel, 64),
                                       std::pair(ScalerScope::kBlock, 1344), std::pair(ScalerScope::kBlock, 4096)}) {
      workers_ = worker_gradients(layout_, 3);
      spoil("fc/weights", 1, -std::numeric_limits<float>::infinity());
      spoil("plain", 0, std::numeric_limits<float>::quiet_NaN());
      spoil("half", 2, std::numeric_limits<float>::infinity());
      auto options = options_of(GetParam());
      options.on_nonfinite = OnNonfinite::kZero;
      TernaryOptions ternary;
      ternary.sharing = sharing;
      ternary.scope = scope;
      ternary.block_elements = block;
      ternary.clip_factor = 2.5;
      ternary.clip_scope = ClipScope::kLocal;
      options.codecs.codec = ternary_spec(ternary);
      const ExchangeReport report = run(options);
      EXPECT_FALSE(report.skipped);
      EXPECT_THAT(report.nonfinite, HasSubstr("and 2 more"));
      ReferenceExchange reference{layout_,
                                  {"ternary", "ternary", "fp32", "ternary", "ternary", "fp32", "bf16"},
                                  ternary,
                                  DownlinkCodec::kFloat32,
                                  options.seed,
                                  12,
                                  {},
                                  {},
                                  {}};
      EXPECT_TRUE(same_bits(reference.run(workers_), mean_)) << word_of(GetParam());
    }
  }
}

TEST_P(OnNonfiniteTest, ASkippedStepLeavesNothingToDecode) {
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kSkip;
  CompressedAllReduce exchange = local_exchange(layout_, 3, options);
  exchange.exchange(tables(workers_, 0, 3), mean_.table, 0);
  spoil("plain", 1, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(exchange.exchange(tables(workers_, 0, 3), mean_.table, 1).skipped);
  std::vector<float> out(7);
  EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
  workers_ = worker_gradients(layout_, 3);
  EXPECT_FALSE(exchange.exchange(tables(workers_, 0, 3), mean_.table, 2).skipped);  // the next step succeeds
  EXPECT_NO_THROW(exchange.decode_local(0, 1, out));
}

/// Finite elements whose mean overflows fp32 or bfloat16, by downlink codec.
struct Overflow {
  const char* tensor;
  float value;
  DownlinkCodec downlink_codec;
};
constexpr Overflow kOverflows[] = {
    {"plain", 3e38f, DownlinkCodec::kFloat32},    // the sum of three workers overflows
    {"plain", -3e38f, DownlinkCodec::kBfloat16},  // infinite before rounding
    {"half", 2e38f, DownlinkCodec::kFloat32},     // overflows as bfloat16 message
    {"half", -3.3e38f, DownlinkCodec::kSums},     // returns as fp32
};

TEST_P(OnNonfiniteTest, AMeanThatOverflowsIsFound) {
  for (const auto& [tensor, value, downlink_codec] : kOverflows) {
    workers_ = worker_gradients(layout_, 3);
    for (const int worker : {0, 1, 2}) spoil(tensor, worker, value);
    auto options = options_of(GetParam(), downlink_codec);
    try {
      run(options);
      FAIL() << "nothing was thrown";
    } catch (const NonFiniteError& error) {
      EXPECT_EQ(error.what(),
                "step 12: the mean of tensor '" + std::string(tensor) + "' is NaN or overflows to infinity");
    }
    options.on_nonfinite = OnNonfinite::kSkip;
    CompressedAllReduce exchange = local_exchange(layout_, 3, options);
    const ExchangeReport skipped = exchange.exchange(tables(workers_, 0, 3), mean_.table, 12);
    EXPECT_TRUE(skipped.skipped);
    EXPECT_THAT(skipped.nonfinite, HasSubstr(tensor));
    std::vector<float> out(7);
    EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
    options.on_nonfinite = OnNonfinite::kZero;
    const ExchangeReport zeroed = run(options);
    EXPECT_FALSE(zeroed.skipped);
    EXPECT_EQ(zeroed.nonfinite, skipped.nonfinite);
    const auto index = static_cast<std::size_t>(layout_.find(tensor));
    EXPECT_THAT(mean_.values[index], ::testing::Each(0.0f));
    // The other tensors are not affected.
    ReferenceExchange reference{layout_,
                                {"ternary", "ternary", "fp32", "ternary", "ternary", "fp32", "bf16"},
                                testing::ternary_of(options),
                                downlink_codec,
                                options.seed,
                                12,
                                {},
                                {},
                                {}};
    auto expected = reference.run(workers_);
    std::ranges::fill(expected[index], 0.0f);
    EXPECT_TRUE(same_bits(expected, mean_)) << tensor;
  }
}

TEST_P(OnNonfiniteTest, WorkersAndMeansAreNamedTogether) {
  spoil("fc/weights", 1, std::numeric_limits<float>::quiet_NaN());
  for (const int worker : {0, 1, 2}) spoil("plain", worker, 3e38f);
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kZero;
  EXPECT_EQ(run(options).nonfinite,
            "step 12: tensor 'fc/weights' of worker 1 holds NaN or infinity, or is too large for the codec; the mean "
            "of tensor 'plain' is NaN or overflows to "
            "infinity");
}

INSTANTIATE_TEST_SUITE_P(CompressedAllReduce, OnNonfiniteTest,
                         ::testing::Values(ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                           ExchangeAlgorithm::kIntegerSum));

TEST(CompressedAllReduce, DownlinkThatRoundsToInfinityIsFound) {
  // One worker with a finite gradient: the largest bfloat16 passes, half a step more overflows.
  Layout layout;
  layout.add("a", {3});
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    for (const auto& [bits, overflows] : {std::pair(0x7f7f7fffu, false), std::pair(0xff7f8000u, true)}) {
      Tensors gradient = blank_tensors(layout);
      gradient.values[0] = {1.0f, std::bit_cast<float>(bits), 2.0f};
      auto options = options_of(algorithm, DownlinkCodec::kBfloat16);
      options.codecs.rules = {};
      options.codecs.codec = "fp32";
      options.on_nonfinite = OnNonfinite::kSkip;
      CompressedAllReduce exchange = local_exchange(layout, 1, options);
      Tensors mean = blank_tensors(layout);
      const TensorTable tables[] = {gradient.table};
      EXPECT_EQ(exchange.exchange(tables, mean.table, 0).skipped, overflows) << word_of(algorithm);
    }
  }
}

TEST(CompressedAllReduce, UnsharedScalersWhoseSumOverflowsAreFound) {
  Layout layout;
  layout.add("a", {100});
  std::vector<Tensors> workers = worker_gradients(layout, 8);
  for (Tensors& worker : workers) std::ranges::fill(worker.values[0], 0x1p126f);  // the largest scaler
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
    for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
      auto options = options_of(algorithm);
      options.codecs.rules = {};
      options.codecs.codec = ternary_spec({.sharing = sharing});
      options.on_nonfinite = OnNonfinite::kSkip;
      CompressedAllReduce exchange = local_exchange(layout, 8, options);
      Tensors mean = blank_tensors(layout);
      // The sum is 2^129; the integer sum is only 8.
      EXPECT_EQ(exchange.exchange(tables(workers, 0, 8), mean.table, 0).skipped, sharing == ScalerSharing::kNone);
    }
  }
}

TEST(CompressedAllReduce, MeansThatAFactorTakesOutOfRangeAreFound) {
  Layout layout;
  layout.add("a", {100});
  layout.add("b", {3});
  std::vector<Tensors> workers = worker_gradients(layout, 8);
  for (Tensors& worker : workers) std::ranges::fill(worker.values[0], 0x1p126f);  // the largest scaler
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    // The mean is 2^126, so only twice the mean is finite.
    for (const float factor : {2.0f, 8.0f}) {
      auto options = options_of(algorithm);
      options.codecs.rules = {};
      options.mean_factor = factor;
      options.on_nonfinite = OnNonfinite::kZero;
      CompressedAllReduce exchange = local_exchange(layout, 8, options);
      Tensors mean = blank_tensors(layout);
      const ExchangeReport report = exchange.exchange(tables(workers, 0, 8), mean.table, 0);
      EXPECT_EQ(report.nonfinite, factor == 2 ? "" : "step 0: the mean of tensor 'a' is NaN or overflows to infinity");
      EXPECT_THAT(mean.values[0], ::testing::Each(factor == 2 ? 0x1p126f : 0.0f));
      EXPECT_THAT(mean.values[1], ::testing::Not(::testing::Each(0.0f)));
    }
  }
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_nonfinite_test
