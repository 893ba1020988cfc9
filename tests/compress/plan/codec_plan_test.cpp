#include "compress/plan/codec_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/bytes_codec.h"

namespace terngrad::codec_plan_test {
namespace {

Layout lenet_like() {
  Layout layout;
  layout.add("conv1/weights", {5, 5});
  layout.add("conv1/biases", {4});
  layout.add("fc/weights", {100});
  layout.add("logits/weights", {10, 3}, true);
  layout.add("logits/biases", {3}, true);
  return layout;
}

std::vector<std::string> names(const CodecPlanOptions& options) {
  const Layout layout = lenet_like();
  const CodecPlan plan(layout, options);
  std::vector<std::string> result;
  for (int t = 0; t < layout.num_segments(); ++t) result.push_back(plan.codec_of(t).name());
  return result;
}

using Names = std::vector<std::string>;

std::string refusal(const Layout& layout, const CodecPlanOptions& options) {
  try {
    const CodecPlan plan(layout, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(CodecPlan, SendsLogitsAsFp32UnlessAsked) {
  EXPECT_EQ(names({}), (Names{"ternary", "ternary", "ternary", "fp32", "fp32"}));
  CodecPlanOptions options;
  options.quantize_logits = true;
  EXPECT_EQ(names(options), (Names{"ternary", "ternary", "ternary", "ternary", "ternary"}));
}

TEST(CodecPlan, SendsTensorsBelowTheSizeAsFp32) {
  CodecPlanOptions options;
  options.quantize_logits = true;
  options.size_to_binarize = 25;  // equal to the limit: still ternarized
  EXPECT_EQ(names(options), (Names{"ternary", "fp32", "ternary", "ternary", "fp32"}));
  options.size_to_binarize = 26;
  EXPECT_EQ(names(options), (Names{"fp32", "fp32", "ternary", "ternary", "fp32"}));
}

TEST(CodecPlan, TakesTheFirstRuleThatMatchesBeforeAnythingElse) {
  CodecPlanOptions options;
  options.size_to_binarize = 50;
  options.rules = {{"logits/*", "ternary"}, {"*/weights", "bf16"}, {"*", "fp32"}};
  EXPECT_EQ(names(options), (Names{"bf16", "fp32", "bf16", "ternary", "ternary"}));
}

TEST(CodecPlan, RefusesARuleThatDecidesForNoTensorAndNamesTheTensors) {
  CodecPlanOptions options;
  options.rules = {{"conv2/*", "fp32"}};
  EXPECT_THAT(refusal(lenet_like(), options),
              ::testing::AllOf(::testing::HasSubstr("'conv2/*'"),
                               ::testing::EndsWith("tensors are conv1/weights, conv1/biases, fc/weights, "
                                                   "logits/weights, logits/biases")));
  options.rules = {{"*", "fp32"}, {"fc/*", "bf16"}};  // the first rule matches all tensors
  EXPECT_THROW(names(options), InvalidArgument);
}

TEST(CodecPlan, NamesNotAllTensorsOfALargeModel) {
  Layout layout;
  for (int i = 0; i < 53; ++i) layout.add("layer" + std::to_string(i), {1});
  CodecPlanOptions options;
  options.rules = {{"none", "fp32"}};
  EXPECT_THAT(refusal(layout, options), ::testing::EndsWith("layer48, layer49 and 3 more"));
}

TEST(CodecPlan, RefusesAnUnknownCodecAndNamesTheKnown) {
  CodecPlanOptions options;
  options.codec = "nonsense";
  try {
    names(options);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("nonsense"), ::testing::HasSubstr("ternary")));
  }
  options.codec = "fp32";
  options.rules = {{"fc/*", "nonsense"}};
  EXPECT_THROW(names(options), InvalidArgument);
}

TEST(CodecPlan, RefusesAnUnknownDefaultThatRulesHide) {
  CodecPlanOptions options;
  options.codec = "nonsense";
  options.rules = {{"*", "fp32"}};
  EXPECT_THROW(names(options), InvalidArgument);
}

TEST(CodecPlan, RefusesAPresetWithAMemoryForSomeTensors) {
  Layout layout;
  layout.add("a", {10});
  layout.add("b", {10});
  const auto plan_with = [&](const std::string& codec) {
    return CodecPlan(layout, {.codec = "qsgd", .rules = {{"a", codec}}});
  };
  EXPECT_EQ(plan_with("nuqsgd").codec_of(0).name(), "natural");
  try {
    plan_with("terngrad_ef");
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rule a=terngrad_ef: a preset whose workers keep something (ef)"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("give the codec ternary:"));
  }
}

TEST(CodecPlan, GroupsTensorsByCodecInOrder) {
  const CodecPlan plan(lenet_like(), {});
  ASSERT_EQ(plan.groups().size(), 2u);
  EXPECT_EQ(plan.groups()[0].segments, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.groups()[1].segments, (std::vector<int>{3, 4}));
  EXPECT_EQ(plan.group_of(3), 1);
}

TEST(CodecPlan, GroupsByAllOptionsOfACodecHoweverTheyAreWritten) {
  CodecPlanOptions options;
  options.codec = "ternary:clip_factor=2.5";
  options.rules = {{"conv1/weights", "ternary"},
                   {"conv1/biases", "ternary:format=t2,clip_factor=2.50"},
                   {"logits/weights", "ternary:clip_factor=0"}};
  const CodecPlan plan(lenet_like(), options);
  ASSERT_EQ(plan.groups().size(), 3u);
  EXPECT_EQ(plan.groups()[0].segments, (std::vector<int>{0, 3}));
  EXPECT_EQ(plan.groups()[1].segments, (std::vector<int>{1, 2}));
  EXPECT_EQ(plan.groups()[2].segments, (std::vector<int>{4}));
  EXPECT_EQ(plan.groups()[1].spec, to_string(canonical_codec_spec("ternary:clip_factor=2.5")));
  EXPECT_THAT(plan.codec_of(3).options_text(), ::testing::StartsWith("clip_factor=0 "));
  EXPECT_THAT(plan.codec_of(2).options_text(), ::testing::StartsWith("clip_factor=2.5 "));
}

TEST(CodecPlan, OfSomeTensorsKeepsCodecsOfOneNameApart) {
  CodecPlanOptions options;
  options.rules = {{"conv1/*", "ternary:clip_factor=2.5"}};
  const CodecPlan whole(lenet_like(), options);
  const std::array<int, 2> chosen = {2, 1};
  const CodecPlan part(whole, lenet_like().select(chosen), chosen);
  ASSERT_EQ(part.groups().size(), 2u);
  EXPECT_EQ(&part.codec_of(0), &whole.codec_of(2));
  EXPECT_EQ(&part.codec_of(1), &whole.codec_of(1));
}

TEST(CodecPlan, NumbersScalersByTensor) {
  Layout layout;
  layout.add("a", {130});
  layout.add("empty", {0});
  layout.add("b", {64});
  CodecPlanOptions options;
  options.codec = "ternary:scope=block,block=64";
  options.size_to_binarize = 0;
  const CodecPlan plan(layout, options);
  EXPECT_EQ(plan.first_scaler(0), 0);
  EXPECT_EQ(plan.first_scaler(1), 3);
  EXPECT_EQ(plan.first_scaler(2), 3);
  EXPECT_EQ(plan.num_scalers(), 4);
}

TEST(CodecPlan, FingerprintDiffersInEverythingThatPeersMustAgreeOn) {
  const Layout layout = lenet_like();
  const auto fingerprint = [&](const CodecPlanOptions& options) { return CodecPlan(layout, options).fingerprint(); };
  const CodecPlanOptions base;
  EXPECT_EQ(fingerprint(base), fingerprint(base));
  std::vector<CodecPlanOptions> others(10, base);
  others[0].codec = "fp32";
  others[1].quantize_logits = true;
  others[2].context.num_workers = 2;
  others[3].codec = "ternary:clip_factor=2.5";
  others[4].codec = "ternary:scaler=original";
  others[5].codec = "ternary:sharing=none";
  others[6].codec = "ternary:clip_scope=local";
  others[7].codec = "ternary:scope=model";
  others[8].codec = "ternary:scope=block";
  others[9].codec = "ternary:format=t5";
  std::vector<std::uint64_t> seen = {fingerprint(base)};
  for (const CodecPlanOptions& other : others) {
    EXPECT_THAT(seen, ::testing::Not(::testing::Contains(fingerprint(other)))) << &other - others.data();
    seen.push_back(fingerprint(other));
  }
  CodecPlanOptions blocks = others[8];
  blocks.codec = "ternary:scope=block,block=64";
  EXPECT_NE(fingerprint(blocks), fingerprint(others[8]));
}

TEST(CodecPlan, OfSomeTensorsIsTheWholePlansForThem) {
  Layout layout;
  layout.add("a*", {9});
  layout.add("ab", {9});
  layout.add("c", {9}, true);
  CodecPlanOptions options;
  options.rules = {{"ab", "bf16"}};
  const CodecPlan whole(layout, options);
  const std::array<int, 2> chosen = {2, 1};
  const Layout selection = layout.select(chosen);
  const CodecPlan part(whole, selection, chosen);  // rules that match none of them are no error here
  EXPECT_EQ(&part.codec_of(0), &whole.codec_of(2));
  EXPECT_EQ(&part.codec_of(1), &whole.codec_of(1));
  EXPECT_EQ(part.groups().size(), 2u);
  EXPECT_EQ(part.num_scalers(), 2);
  const std::array<int, 1> other = {0};
  EXPECT_NE(CodecPlan(whole, layout.select(other), other).fingerprint(), part.fingerprint());
  EXPECT_NE(part.fingerprint(), whole.fingerprint());
  EXPECT_THROW(CodecPlan(whole, layout, chosen), InvalidArgument);
}

TEST(CodecPlan, OfACodecThatIsNotInTheRegistryIsForAllTensors) {
  const Layout layout = lenet_like();
  const auto codec = std::make_shared<const testing::Bytes>();
  const CodecPlan plan = CodecPlan::with_codec(layout, codec);
  ASSERT_EQ(plan.groups().size(), 1u);
  EXPECT_EQ(plan.groups()[0].spec, "bytes");
  for (int t = 0; t < layout.num_segments(); ++t) EXPECT_EQ(&plan.codec_of(t), codec.get());
  EXPECT_EQ(plan.num_scalers(), 5);
  EXPECT_NE(plan.fingerprint(), CodecPlan(layout, CodecPlanOptions{}).fingerprint());
  CodecContext of_columns;
  of_columns.columns = 5;
  EXPECT_THROW(CodecPlan::with_codec(layout, make_codec("onebit", of_columns)), InvalidArgument);
}

TEST(ParseCodecRule, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(parse_codec_rule("conv*=fp32").pattern, "conv*");
  EXPECT_EQ(parse_codec_rule("conv*=fp32").codec, "fp32");
  EXPECT_EQ(parse_codec_rule("conv*=ternary:clip_factor=2.5").pattern, "conv*");
  EXPECT_EQ(parse_codec_rule("conv*=ternary:clip_factor=2.5").codec, "ternary:clip_factor=2.5");
}

TEST(ParseCodecRule, RefusesWhatIsNotOne) {
  for (const char* text : {"", "=", "a=", "=fp32", "fp32"})
    EXPECT_THROW(parse_codec_rule(text), InvalidArgument) << text;
}

TEST(MatchesPattern, KnowsStarsAndQuestionMarks) {
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("*", "conv1/weights"));
  EXPECT_TRUE(matches_pattern("conv?/*", "conv1/weights"));
  EXPECT_FALSE(matches_pattern("conv?/*", "conv10/weights"));
  EXPECT_FALSE(matches_pattern("a", "ab"));  // patterns match whole names
  EXPECT_TRUE(matches_pattern("*", ".hidden"));
}

TEST(MatchesPattern, TakesOtherCharactersAsTheyAre) {
  EXPECT_TRUE(matches_pattern("layers[0]/*", "layers[0]/weights"));
  EXPECT_FALSE(matches_pattern("layers[0]/*", "layers0/weights"));
  EXPECT_TRUE(matches_pattern("a\\b\\", "a\\b\\"));
  EXPECT_FALSE(matches_pattern("a\\b", "ab"));
}

}  // namespace
}  // namespace terngrad::codec_plan_test
