#include "compress/route/exchange_algorithm.h"

#include <gtest/gtest.h>

#include "compress/route/route.h"
#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"

namespace terngrad::exchange_algorithm_test {
namespace {

constexpr ExchangeAlgorithm kAuto = ExchangeAlgorithm::kAuto;

Layout two_tensors() {
  Layout layout;
  layout.add("a", {300 * 4096});  // enough chunks for the shards of a hundred workers
  layout.add("b", {100 * 4096});
  return layout;
}

CodecPlanOptions codecs_of(const std::string& a, const std::string& b, int num_workers) {
  CodecPlanOptions options;
  options.rules = {{"a", a}, {"b", b}};
  options.context.num_workers = num_workers;
  return options;
}

ExchangeAlgorithm chosen(const CodecPlanOptions& codecs, ExchangeAlgorithm asked = kAuto,
                         DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
  const Layout layout = two_tensors();
  const CodecPlan plan(layout, codecs);
  return choose_algorithm(asked, ShardOwners::kWorkers, downlink_codec, layout, plan, codecs.context.num_workers);
}

TEST(ExchangeAlgorithm, StaysTheOneThatIsAskedFor) {
  for (const ExchangeAlgorithm asked :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    EXPECT_EQ(chosen(codecs_of("ternary", "fp32", 4), asked), asked);
  }
}

TEST(ExchangeAlgorithm, OfOneWorkerGathersUnlessSumsAreToTravelBack) {
  EXPECT_EQ(chosen(codecs_of("fp32", "fp32", 1)), ExchangeAlgorithm::kAllGather);
  for (const int num_workers : {1, 4}) {
    EXPECT_EQ(chosen(codecs_of("ternary", "ternary", num_workers), kAuto, DownlinkCodec::kSums),
              ExchangeAlgorithm::kScatterReduce);
  }
}

/// The smallest number of workers for which auto chooses another algorithm than for two, and that algorithm.
struct Threshold {
  int num_workers = 0;
  ExchangeAlgorithm algorithm = kAuto;
  friend bool operator==(const Threshold&, const Threshold&) = default;
};
Threshold threshold_of(const std::string& a, const std::string& b,
                       DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
  for (int num_workers = 3; num_workers < 100; ++num_workers) {
    const CodecPlanOptions codecs = codecs_of(a, b, num_workers);
    const ExchangeAlgorithm algorithm = chosen(codecs, kAuto, downlink_codec);
    if (algorithm != ExchangeAlgorithm::kAllGather) return {num_workers, algorithm};
  }
  return {};
}

TEST(ExchangeAlgorithm, TakesTheOneWithTheFewestBytesOverALink) {
  const Threshold from3{3, ExchangeAlgorithm::kScatterReduce};
  // b bits per element gathered, and 32 back: (N - 1) b <= (N - 1) / N (b + 32) means N <= 1 + 32 / b.
  EXPECT_EQ(chosen(codecs_of("fp32", "fp32", 2)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(threshold_of("fp32", "fp32"), from3);
  EXPECT_EQ(threshold_of("bf16", "bf16"), (Threshold{4, ExchangeAlgorithm::kScatterReduce}));
  EXPECT_EQ(threshold_of("bf16", "bf16", DownlinkCodec::kBfloat16), from3);
  // Codes that cannot be summed: 1 + 32 / 2 is 17; there the headers of the additional round decide.
  EXPECT_EQ(threshold_of("ternary:sharing=none", "ternary:sharing=none"),
            (Threshold{18, ExchangeAlgorithm::kScatterReduce}));
}

TEST(ExchangeAlgorithm, AddsUpCodesWhereThatMovesLess) {
  // Lanes hold sums of N codes: 3 bits for N up to 3, 4 up to 7 (16 per word), 5 up to 15 (12 per word). 2 (N - 1) / N
  // 64 / 16 <= 2 (N - 1) means N >= 4; sums have no headers and so move less.
  EXPECT_EQ(threshold_of("ternary", "ternary"), (Threshold{4, ExchangeAlgorithm::kIntegerSum}));
  // 1.6 bits: 8 (N - 1) / N <= 1.6 (N - 1) means N >= 5.
  EXPECT_EQ(threshold_of("ternary:format=t5", "ternary:format=t5"), (Threshold{5, ExchangeAlgorithm::kIntegerSum}));
  // integer_sum gathers all other tensors; if these are large, scatter_reduce moves less.
  EXPECT_EQ(chosen(codecs_of("ternary", "fp32", 3)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen(codecs_of("ternary", "fp32", 5)), ExchangeAlgorithm::kScatterReduce);
}

TEST(ExchangeAlgorithm, NeverTakesOneThatMovesMoreThanAPlainAllReduce) {
  // Gathering 2 bits from 32 others moves as much as an fp32 all-reduce.
  const Layout layout = two_tensors();
  for (int num_workers = 2; num_workers < 100; ++num_workers) {
    const CodecPlanOptions codecs = codecs_of("ternary", "ternary", num_workers);
    const CodecPlan plan(layout, codecs);
    const ExchangeAlgorithm algorithm =
        choose_algorithm(kAuto, ShardOwners::kWorkers, DownlinkCodec::kFloat32, layout, plan, num_workers);
    const std::int64_t bytes = busiest_worker_bytes(algorithm, DownlinkCodec::kFloat32, layout, plan, num_workers);
    EXPECT_LT(static_cast<double>(bytes), 0.3 * fp32_all_reduce_bytes(layout.num_elements(), num_workers))
        << num_workers << " " << word_of(algorithm);
  }
}

TEST(ExchangeAlgorithm, IntegerSumNeedsOneTensorWhoseCodesAddUp) {
  EXPECT_NO_THROW(chosen(codecs_of("fp32", "ternary", 2), ExchangeAlgorithm::kIntegerSum));
  EXPECT_THROW(chosen(codecs_of("fp32", "bf16", 2), ExchangeAlgorithm::kIntegerSum), InvalidArgument);
  const CodecPlanOptions unshared = codecs_of("ternary:sharing=none", "ternary:sharing=none", 2);
  EXPECT_THROW(chosen(unshared, ExchangeAlgorithm::kIntegerSum), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::exchange_algorithm_test
