#include "compress/exchange_algorithm.h"

#include <gtest/gtest.h>

#include "kernels/errors.h"

namespace terngrad::exchange_algorithm_test {
namespace {

constexpr ExchangeAlgorithm kAuto = ExchangeAlgorithm::kAuto;

Layout two_tensors() {
  Layout layout;
  layout.add("a", {3000});
  layout.add("b", {1000});
  return layout;
}

CodecPlanOptions codecs_of(const std::string& a, const std::string& b, int num_workers) {
  CodecPlanOptions options;
  options.rules = {{"a", a}, {"b", b}};
  options.codec_options.num_workers = num_workers;
  return options;
}

ExchangeAlgorithm chosen(const CodecPlanOptions& codecs, ExchangeAlgorithm asked = kAuto,
                         ReturnCodec return_codec = ReturnCodec::kFloat32) {
  const Layout layout = two_tensors();
  const CodecPlan plan(layout, codecs);
  return choose_algorithm(asked, return_codec, layout, plan, codecs.codec_options.num_workers);
}

TEST(ExchangeAlgorithm, HasNames) {
  EXPECT_EQ(to_string(ExchangeAlgorithm::kAllGather), "all_gather");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kScatterReduce), "scatter_reduce");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kIntegerSum), "integer_sum");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kAuto), "auto");
  EXPECT_THROW(to_string(static_cast<ExchangeAlgorithm>(9)), InvalidArgument);
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
    EXPECT_EQ(chosen(codecs_of("ternary", "ternary", num_workers), kAuto, ReturnCodec::kSums),
              ExchangeAlgorithm::kScatterReduce);
  }
}

TEST(ExchangeAlgorithm, TakesTheOneWithFewerBytesToReceive) {
  // b bits per element gathered and 32 back: (N - 1) b <= (N - 1) / N (b + 32) is N <= 1 + 32 / b.
  EXPECT_EQ(chosen(codecs_of("fp32", "fp32", 2)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen(codecs_of("fp32", "fp32", 3)), ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(chosen(codecs_of("bf16", "bf16", 3)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen(codecs_of("bf16", "bf16", 4)), ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(chosen(codecs_of("ternary", "ternary", 17)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen(codecs_of("ternary", "ternary", 18)), ExchangeAlgorithm::kScatterReduce);
  // Elements count, not tensors: 2 bits of three quarters of them and 32 of the rest are 9.5 of each.
  EXPECT_EQ(chosen(codecs_of("ternary", "fp32", 4)), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen(codecs_of("ternary", "fp32", 5)), ExchangeAlgorithm::kScatterReduce);
}

TEST(ExchangeAlgorithm, IntegerSumNeedsOneTensorWhoseCodesAddUp) {
  EXPECT_NO_THROW(chosen(codecs_of("fp32", "ternary", 2), ExchangeAlgorithm::kIntegerSum));
  EXPECT_THROW(chosen(codecs_of("fp32", "bf16", 2), ExchangeAlgorithm::kIntegerSum), InvalidArgument);
  CodecPlanOptions unshared = codecs_of("ternary", "ternary", 2);
  unshared.codec_options.ternary.sharing = ScalerSharing::kNone;
  EXPECT_THROW(chosen(unshared, ExchangeAlgorithm::kIntegerSum), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::exchange_algorithm_test
