#include "compress/route/downlink_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compress/route/exchange_algorithm.h"
#include "kernels/runtime/errors.h"
#include "support/codec_classes.h"

namespace terngrad::downlink_forms_test {
namespace {

using testing::ClassedSpec;
using testing::CodecClass;
using testing::kClassedSpecs;

constexpr int kWorkers = 5;
constexpr DownlinkCodec kDownlinkCodecs[] = {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kSums,
                                             DownlinkCodec::kTernary, DownlinkCodec::kSparse};

Layout one_tensor() {
  Layout layout;
  layout.add("weights", {40, 25});
  return layout;
}

CodecPlan plan_of(const Layout& layout, const std::string& codec) {
  CodecPlanOptions options;
  options.codec = codec;
  options.size_to_binarize = 0;
  options.context.num_workers = kWorkers;
  return {layout, options};
}

TEST(DownlinkForms, OnlyBf16AndTernaryAreLossy) {
  const Layout layout = one_tensor();
  const CodecPlan plan = plan_of(layout, "ternary");
  EXPECT_FALSE(DownlinkForms(plan, DownlinkCodec::kFloat32, kWorkers).is_lossy());
  EXPECT_TRUE(DownlinkForms(plan, DownlinkCodec::kBfloat16, kWorkers).is_lossy());
  EXPECT_FALSE(DownlinkForms(plan, DownlinkCodec::kSums, kWorkers).is_lossy());
  EXPECT_TRUE(DownlinkForms(plan, DownlinkCodec::kTernary, kWorkers).is_lossy());
}

/// Expected form of the mean for a codec class and a downlink codec that it supports.
MeanForm expected_form(CodecClass column, DownlinkCodec codec) {
  if (codec == DownlinkCodec::kBfloat16) return MeanForm::kBfloat16;
  if (codec == DownlinkCodec::kSparse) {
    return column == CodecClass::kSparse ? MeanForm::kSparse : MeanForm::kFloat32;
  }
  if (codec == DownlinkCodec::kFloat32 || column == CodecClass::kFloats || column == CodecClass::kSparse ||
      column == CodecClass::kLowRank) {
    return MeanForm::kFloat32;
  }
  return codec == DownlinkCodec::kSums && column != CodecClass::kVotes ? MeanForm::kLanes : MeanForm::kCodes;
}

TEST(DownlinkForms, EveryClassOfCodecsHasAForm) {
  const Layout layout = one_tensor();
  for (const ClassedSpec& classed : kClassedSpecs) {
    const CodecPlan plan = plan_of(layout, classed.spec);
    for (const DownlinkCodec codec : kDownlinkCodecs) {
      SCOPED_TRACE(std::string(classed.spec) + " " + word_of(codec));
      const bool as_codes = codec == DownlinkCodec::kSums || codec == DownlinkCodec::kTernary;
      if (as_codes && classed.column == CodecClass::kOwnScalers) continue;                     // refused
      if (codec == DownlinkCodec::kTernary && classed.column == CodecClass::kVotes) continue;  // refused
      const DownlinkForms forms(plan, codec, kWorkers);
      const MeanForm form = forms.form(0);
      EXPECT_EQ(form, expected_form(classed.column, codec));
      const bool is_sum = form == MeanForm::kLanes || form == MeanForm::kCodes;
      EXPECT_EQ(forms.unit(0), is_sum ? AggregateUnit::kSums : AggregateUnit::kMean);
      EXPECT_EQ(is_sum && forms.code_format(0) == CodeFormat::kLanes, form == MeanForm::kLanes);
    }
  }
}

TEST(DownlinkForms, SumsThatStayWhereTheyAreAreNotMade) {
  const Layout layout = one_tensor();
  const CodecPlan plan = plan_of(layout, "ternary");
  const DownlinkForms staying(plan, DownlinkCodec::kSums, kWorkers, false);
  EXPECT_EQ(staying.unit(0), AggregateUnit::kMean);
  EXPECT_EQ(staying.form(0), MeanForm::kFloat32);
  // Ternarizing the sums changes the mean, so it happens even if nothing travels.
  EXPECT_EQ(DownlinkForms(plan, DownlinkCodec::kTernary, kWorkers, false).form(0), MeanForm::kCodes);
}

TEST(DownlinkForms, BytesAreThoseOfTheForm) {
  const Layout layout = one_tensor();
  const CodecPlan plan = plan_of(layout, "ternary");
  const CodecPlan signs = plan_of(layout, "sign:reduce=vote,scale=l1");
  const Slice odd{0, 0, 999};
  EXPECT_EQ(DownlinkForms(plan, DownlinkCodec::kFloat32, kWorkers).max_bytes(odd), 4 * 999);
  EXPECT_EQ(DownlinkForms(plan, DownlinkCodec::kBfloat16, kWorkers).max_bytes(odd), 2000);  // padded to 4 bytes
  // 11 possible sums, -5 to 5, take 4 bits: 16 per word of 8 bytes.
  EXPECT_EQ(DownlinkForms(plan, DownlinkCodec::kSums, kWorkers).max_bytes(odd), 63 * 8);
  EXPECT_EQ(DownlinkForms(plan, DownlinkCodec::kTernary, kWorkers).max_bytes(odd), 252);  // 4 per byte, padded to words
  EXPECT_EQ(DownlinkForms(signs, DownlinkCodec::kSums, kWorkers).max_bytes(odd), 252);
}

TEST(DownlinkForms, ElementsThatAreNotZeroAreAtMostThoseOfAllWorkers) {
  const Layout layout = one_tensor();
  const Slice whole{0, 0, 1000};
  const auto places = [&](const char* spec) {
    return DownlinkForms(plan_of(layout, spec), DownlinkCodec::kSparse, kWorkers).max_places(whole);
  };
  EXPECT_EQ(places("topk:density=0.01"), 10 * kWorkers);
  EXPECT_EQ(places("topk:density=0.5"), 1000);
  EXPECT_EQ(places("randomk:density=0.01"), 10) << "the same ones of all";
  EXPECT_EQ(places("topk:stage_steps=2"), 1000) << "of any of the stages";
  EXPECT_FALSE(DownlinkForms(plan_of(layout, "topk"), DownlinkCodec::kSparse, kWorkers).has_fixed_size());
  EXPECT_TRUE(DownlinkForms(plan_of(layout, "ternary"), DownlinkCodec::kSparse, kWorkers).has_fixed_size());
}

TEST(DownlinkForms, SlicesTooLargeForSparseAreRefusedInItsWords) {
  const Layout layout = one_tensor();
  const CodecPlan plan = plan_of(layout, "topk:density=0.3");
  const DownlinkForms forms(plan, DownlinkCodec::kSparse, kWorkers);
  EXPECT_GT(forms.max_bytes({0, 0, 1 << 20}), 4 << 20);
  EXPECT_THAT(
      [&] {
        forms.max_bytes({0, 0, std::int64_t{1} << 30});
      },
      ::testing::ThrowsMessage<InvalidArgument>(::testing::HasSubstr("[downlink] sparse cannot hold a slice")));
}

TEST(DownlinkForms, OnlyAFormatThatDependsOnTheCodesHasNoFixedSize) {
  const Layout layout = one_tensor();
  const CodecPlan mask = plan_of(layout, "ternary:format=tmask");
  const CodecPlan t2 = plan_of(layout, "ternary:format=t2");
  EXPECT_FALSE(DownlinkForms(mask, DownlinkCodec::kTernary, kWorkers).has_fixed_size());
  EXPECT_TRUE(DownlinkForms(mask, DownlinkCodec::kSums, kWorkers).has_fixed_size());
  EXPECT_TRUE(DownlinkForms(t2, DownlinkCodec::kTernary, kWorkers).has_fixed_size());
}

}  // namespace
}  // namespace terngrad::downlink_forms_test
