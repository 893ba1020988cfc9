#include "compress/plan/codec_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::codec_facts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

TEST(CodecFacts, OfFloats) {
  const CodecFacts fp32 = codec_facts("fp32");
  EXPECT_THAT(fp32.bits, ElementsAre(32));
  EXPECT_TRUE(fp32.unbiased.by_default && fp32.sums_as_float);
  EXPECT_FALSE(fp32.summable.by_default);
  EXPECT_THAT(fp32.unbiased.changed_by, IsEmpty());
  EXPECT_FALSE(codec_facts("bf16").unbiased.by_default);
}

TEST(CodecFacts, OfTernaryWithEachWordOfItsKeys) {
  const CodecFacts ternary = codec_facts("ternary");
  EXPECT_THAT(ternary.bits, ElementsAre(1.6, 2));
  EXPECT_THAT(ternary.varying_by, ::testing::Contains("format=tmask"));
  EXPECT_THAT(ternary.varying_by, ::testing::Contains("format=trans"));
  EXPECT_TRUE(ternary.unbiased.by_default && ternary.summable.by_default);
  EXPECT_THAT(ternary.unbiased.changed_by, IsSupersetOf({"sharing=mean", "rounding=nearest"}));
  EXPECT_THAT(ternary.summable.changed_by, ::testing::Contains("sharing=none"));
}

// natural's norm=l2 is missing: it needs bits=4.
TEST(CodecFacts, OfQuantizers) {
  const CodecFacts qsgd = codec_facts("qsgd");
  EXPECT_THAT(qsgd.bits, ElementsAre(2, 4, 8));
  EXPECT_FALSE(qsgd.summable.by_default);
  EXPECT_THAT(qsgd.summable.changed_by, ElementsAre("sharing=max"));
  EXPECT_THAT(qsgd.unbiased.changed_by, ElementsAre("norm=rms", "rounding=nearest"));
  const CodecFacts natural = codec_facts("natural");
  EXPECT_THAT(natural.bits, ElementsAre(4, 8));
  EXPECT_THAT(natural.unbiased.changed_by, IsEmpty());
  const CodecFacts fp8 = codec_facts("fp8");
  EXPECT_FALSE(fp8.unbiased.by_default);
  EXPECT_THAT(fp8.unbiased.changed_by, ElementsAre("rounding=stochastic"));
}

TEST(CodecFacts, RefusesAnUnknownName) { EXPECT_THROW(codec_facts("fp64"), InvalidArgument); }

}  // namespace
}  // namespace terngrad::codec_facts_test
