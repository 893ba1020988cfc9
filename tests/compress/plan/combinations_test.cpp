// Exchanges refuse what this refuses: tests/compress/exchange/codec_classes_test.cpp.
#include "compress/plan/combinations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"

namespace terngrad::combinations_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// "CHOICE: reason" with codecs that are named as they are given; empty if they go together.
std::string refusal_of(const std::vector<std::string>& specs, const Combination& choices) {
  std::vector<std::shared_ptr<const Codec>> made;
  std::vector<NamedCodec> codecs;
  for (const std::string& spec : specs) {
    made.push_back(make_codec(spec, {.num_workers = 3}));
    codecs.push_back({made.back().get(), "<" + spec + ">"});
  }
  const std::optional<Refusal> refusal = find_refusal(codecs, choices);
  return refusal ? std::to_string(static_cast<int>(refusal->choice)) + ": " + refusal->reason : "";
}

std::string begin_of(RefusedChoice choice) { return std::to_string(static_cast<int>(choice)) + ": "; }

TEST(Combinations, ADefaultExchangeTakesEveryCodec) {
  for (const std::string& codec : codec_names()) EXPECT_EQ(refusal_of({codec}, {}), "") << codec;
}

TEST(Combinations, CodesReturnIfSomeAddUpAndAllMay) {
  const Combination sums{.downlink_codec = DownlinkCodec::kSums};
  const Combination ternary{.downlink_codec = DownlinkCodec::kTernary};
  for (const Combination& choices : {sums, ternary}) {
    EXPECT_EQ(refusal_of({"ternary", "topk", "fp32", "powersgd"}, choices), "");
    EXPECT_THAT(refusal_of({"ternary", "qsgd"}, choices),
                AllOf(StartsWith(begin_of(RefusedChoice::kDownlinkCodec)), HasSubstr("<qsgd> gives each its own"),
                      HasSubstr("accepted with it: fp32, bf16")));
  }
  EXPECT_EQ(refusal_of({"sign:reduce=vote"}, sums), "");
  EXPECT_THAT(refusal_of({"ternary", "sign:reduce=vote"}, ternary),
              HasSubstr("the votes of <sign:reduce=vote> are not"));
}

TEST(Combinations, CodesOfOneScalerButTwoLevelsDoNotReturn) {
  EXPECT_THAT(refusal_of({"ternary:levels=asymmetric"}, {.downlink_codec = DownlinkCodec::kSums}),
              HasSubstr("which <ternary:levels=asymmetric> does not have"));
}

TEST(Combinations, OneTensorIsEnoughForIntegerSumsAndForSparseMeans) {
  const Combination integer_sum{.algorithm = ExchangeAlgorithm::kIntegerSum};
  EXPECT_EQ(refusal_of({"topk", "qsgd:sharing=max"}, integer_sum), "");
  EXPECT_THAT(refusal_of({"topk", "qsgd"}, integer_sum),
              AllOf(StartsWith(begin_of(RefusedChoice::kAlgorithm)), HasSubstr("add up as integers")));
  const Combination sparse{.downlink_codec = DownlinkCodec::kSparse};
  EXPECT_EQ(refusal_of({"ternary", "randomk"}, sparse), "");
  EXPECT_THAT(refusal_of({"ternary"}, sparse), HasSubstr("needs a sparse codec"));
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kIntegerSum}) {
    EXPECT_THAT(refusal_of({"ternary", "topk"}, {.algorithm = algorithm, .downlink_codec = DownlinkCodec::kSparse}),
                HasSubstr("has no effect with " + word_of(algorithm)));
  }
  EXPECT_THAT(refusal_of({"topk"}, {.downlink_codec = DownlinkCodec::kSparse, .is_on_gpus = true}),
              HasSubstr("no kernels for GPUs"));
}

TEST(Combinations, AMemoryKeepsWhatMayBeSentLater) {
  const auto refusal = [](const char* codec, MemoryKind memory) { return refusal_of({codec}, {.memory = memory}); };
  EXPECT_EQ(refusal("ternary", MemoryKind::kErrorFeedback), "");
  EXPECT_EQ(refusal("bf16", MemoryKind::kMomentum), "");
  EXPECT_EQ(refusal("topk", MemoryKind::kDgc), "");
  EXPECT_EQ(refusal_of({"fp32", "topk"}, {.memory = MemoryKind::kDgc}), "");
  EXPECT_EQ(refusal("sign:reduce=vote", MemoryKind::kMomentum), "");
  EXPECT_THAT(refusal("sign:reduce=vote", MemoryKind::kErrorFeedback), HasSubstr("a vote is no sum"));
  EXPECT_THAT(refusal("randomk:scale=q", MemoryKind::kErrorFeedback), HasSubstr("<randomk:scale=q> scales up"));
  EXPECT_THAT(refusal("randomk:scale=q", MemoryKind::kDgc), HasSubstr("<randomk:scale=q> scales up"));
  EXPECT_THAT(refusal("ternary", MemoryKind::kDgc), HasSubstr("<ternary> sends all of them"));
  for (const char* codec : {"ternary", "topk", "eden"}) EXPECT_EQ(refusal(codec, MemoryKind::kLoco), "");
  EXPECT_THAT(refusal("sign:reduce=vote", MemoryKind::kLoco), HasSubstr("a vote is no sum"));
  EXPECT_THAT(refusal("randomk:scale=q", MemoryKind::kLoco), HasSubstr("<randomk:scale=q> scales up"));
  EXPECT_THAT(refusal("powersgd", MemoryKind::kLoco), HasSubstr("the factors of <powersgd> leave out in 8 bits"));
  EXPECT_THAT(refusal("fp32", MemoryKind::kErrorFeedback),
              AllOf(StartsWith(begin_of(RefusedChoice::kMemory)), HasSubstr("has nothing to keep")));
}

TEST(Combinations, AnEstimateNeedsCodecsThatContractAndAnExactMean) {
  const auto refusal = [](const char* codec, Combination choices = {}) {
    choices.memory = MemoryKind::kEf21;
    return refusal_of({codec}, choices);
  };
  for (const char* codec : {"topk", "eden", "ternary:clip_factor=1.5", "ternary:rounding=nearest", "qsgd", "sign"}) {
    EXPECT_EQ(refusal(codec), "") << codec;
  }
  for (const char* codec : {"ternary", "ternary:clip_factor=2.5", "qsgd:bits=2", "randomk:scale=q", "sign:scale=l2"}) {
    EXPECT_THAT(refusal(codec), AllOf(StartsWith(begin_of(RefusedChoice::kMemory)), HasSubstr("vNMSE of 1 or more")));
  }
  EXPECT_THAT(refusal("sign:reduce=vote"), HasSubstr("are no messages to add"));
  EXPECT_THAT(refusal("powersgd"), HasSubstr("the factors of <powersgd> belong to all"));
  EXPECT_THAT(refusal("fp32"), HasSubstr("has nothing to keep"));
  EXPECT_THAT(refusal("topk", {.is_pushed = true}), HasSubstr("pushes of workers do not come together"));
  EXPECT_THAT(refusal("qsgd", {.has_servers = true, .updates_shards = true}),
              HasSubstr("servers update in their place"));
  EXPECT_EQ(refusal("qsgd", {.has_servers = true}), "");
  EXPECT_THAT(refusal("topk", {.on_nonfinite = OnNonfinite::kZero}),
              AllOf(StartsWith(begin_of(RefusedChoice::kOnNonfinite)), HasSubstr("accepted with it: stop, skip")));
  EXPECT_THAT(refusal("qsgd", {.downlink_codec = DownlinkCodec::kBfloat16}),
              AllOf(StartsWith(begin_of(RefusedChoice::kDownlinkCodec)), HasSubstr("add up in the estimate")));
  EXPECT_EQ(refusal("qsgd:sharing=max", {.downlink_codec = DownlinkCodec::kSums}), "");
}

TEST(Combinations, ServersUpdateWhatCanBeCutAnywhere) {
  Combination choices{.has_servers = true, .updates_shards = true};
  EXPECT_EQ(refusal_of({"ternary", "randomk"}, choices), "");
  EXPECT_THAT(refusal_of({"ternary", "topk"}, choices),
              AllOf(StartsWith(begin_of(RefusedChoice::kUpdate)), HasSubstr("<topk> takes whole tensors")));
  EXPECT_THAT(refusal_of({"powersgd"}, choices), HasSubstr("<powersgd> takes whole tensors"));
  choices.downlink_codec = DownlinkCodec::kSums;
  EXPECT_THAT(refusal_of({"ternary"}, choices), HasSubstr("send parameters back"));
  EXPECT_THAT(refusal_of({"ternary"}, {.has_servers = true, .updates_shards = true, .is_on_gpus = true}),
              HasSubstr("gradients are on GPUs"));
  EXPECT_THAT(refusal_of({"ternary"}, {.updates_shards = true}), HasSubstr("needs servers"));
  EXPECT_THAT(refusal_of({"ternary"}, {.has_servers = true, .has_groups = true}),
              StartsWith(begin_of(RefusedChoice::kGroups)));
  EXPECT_THAT(refusal_of({"ternary"}, {.algorithm = ExchangeAlgorithm::kAllGather, .has_servers = true}),
              AllOf(StartsWith(begin_of(RefusedChoice::kAlgorithm)), HasSubstr("auto, scatter_reduce")));
}

TEST(Combinations, PushesAreOfOneWorker) {
  EXPECT_EQ(refusal_of({"ternary:sharing=none", "topk", "powersgd"}, {.is_pushed = true}), "");
  EXPECT_THAT(refusal_of({"topk", "ternary"}, {.is_pushed = true}),
              AllOf(StartsWith(begin_of(RefusedChoice::kPush)), HasSubstr("the scalers of <ternary>")));
  EXPECT_THAT(refusal_of({"qsgd:rounding=stratified"}, {.is_pushed = true}),
              HasSubstr("the stratified draws of <qsgd:rounding=stratified> would cancel no error"));
  EXPECT_THAT(refusal_of({"sign:reduce=vote"}, {.is_pushed = true}), HasSubstr("no vote as <sign:reduce=vote> takes"));
  EXPECT_THAT(refusal_of({"topk"}, {.downlink_codec = DownlinkCodec::kSparse, .is_pushed = true}),
              HasSubstr("send parameters back"));
}

TEST(Combinations, TheLibrarysAllReduceIsAnAllReduceAlone) {
  EXPECT_EQ(refusal_of({}, {.is_vendor = true}), "");
  EXPECT_THAT(refusal_of({}, {.on_nonfinite = OnNonfinite::kZero, .is_vendor = true}),
              AllOf(StartsWith(begin_of(RefusedChoice::kOnNonfinite)), HasSubstr("accepted with it: stop, skip")));
  EXPECT_THAT(refusal_of({}, {.is_vendor = true, .has_servers = true}), StartsWith(begin_of(RefusedChoice::kVendor)));
  EXPECT_THAT(refusal_of({"bf16"}, {.memory = MemoryKind::kMomentum, .is_vendor = true}),
              StartsWith(begin_of(RefusedChoice::kMemory)));
  EXPECT_THAT(refusal_of({}, {.is_vendor = true, .has_groups = true}),
              AllOf(StartsWith(begin_of(RefusedChoice::kGroups)), HasSubstr("accepted with it: groups of 1")));
}

TEST(Combinations, APlansCodecsAreNamedAsTheLibraryNamesThem) {
  Layout layout;
  layout.add("weights", {100});
  const auto message = [&](const char* codec, const Combination& choices) -> std::string {
    CodecPlanOptions options;
    options.codec = codec;
    options.context.num_workers = 2;
    try {
      require_combination(CodecPlan(layout, options), choices);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("qsgd", {}), "");
  EXPECT_EQ(message("qsgd", {.downlink_codec = DownlinkCodec::kSums}),
            "[exchange] downlink_codec sums: needs scalers that all workers share, and codec qsgd gives each its own "
            "(sharing=none); accepted with it: fp32, bf16");
  EXPECT_THAT(message("fp32", {.memory = MemoryKind::kErrorFeedback}), StartsWith("[exchange] memory ef: "));
  EXPECT_THAT(message("topk", {.algorithm = ExchangeAlgorithm::kIntegerSum}),
              StartsWith("[exchange] algorithm integer_sum: needs codes"));
  EXPECT_THAT(message("topk", {.on_nonfinite = OnNonfinite::kZero, .is_vendor = true}),
              StartsWith("[exchange] on_nonfinite zero: "));
  EXPECT_THAT(message("topk", {.is_vendor = true, .has_servers = true}), StartsWith("[exchange] vendor: "));
  EXPECT_THAT(message("ternary", {.is_pushed = true}), StartsWith("[exchange] a push: "));
  EXPECT_THAT(message("ternary", {.updates_shards = true}),
              StartsWith("[exchange] an update of shards: needs servers"));
  EXPECT_THAT(message("ternary", {.has_servers = true, .has_groups = true}),
              StartsWith("[exchange] groups of workers: take no servers"));
}

}  // namespace
}  // namespace terngrad::combinations_test
