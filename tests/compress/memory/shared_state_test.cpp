#include "compress/memory/shared_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "compress/plan/codec_plan.h"

namespace terngrad::shared_state_test {
namespace {

Layout layout_of_test() {
  Layout layout;
  layout.add("first", {40, 30});
  layout.add("vector", {1000});
  layout.add("last", {5, 8, 90});
  return layout;
}

CodecPlan plan_of(const Layout& layout, const char* spec) {
  CodecPlanOptions options;
  options.codec = spec;
  return {layout, with_workers(options, 3)};
}

TEST(SharedState, HasAFactorOfZerosForEachTensorOfLowRank) {
  const Layout layout = layout_of_test();
  SharedState state(layout, plan_of(layout, "powersgd:rank=2"), MemoryKind::kErrorFeedback);
  ASSERT_EQ(state.layout().num_segments(), 2);
  EXPECT_EQ(state.layout().segment(0).shape, (std::vector<std::int64_t>{2, 30}));
  EXPECT_EQ(state.layout().segment(1).shape, (std::vector<std::int64_t>{2, 90}));
  for (const float value : state.values()) EXPECT_EQ(value, 0);
  EXPECT_EQ(state.find("vector"), nullptr);
  EXPECT_EQ(state.find("first"), state.values().data());
  EXPECT_EQ(state.find("last"), state.values().data() + state.layout().segment(1).offset);
}

TEST(SharedState, HasTheMeanOfEstimatesForEachTensorWithALossyCodec) {
  const Layout layout = layout_of_test();
  CodecPlanOptions options;
  options.codec = "topk";
  options.rules = {{"first", "fp32"}};
  SharedState state(layout, CodecPlan(layout, with_workers(options, 3)), MemoryKind::kEf21);
  EXPECT_EQ(state.find("first"), nullptr);
  EXPECT_EQ(state.layout().num_segments(), layout.num_segments() - 1);
  EXPECT_EQ(state.layout().segment(state.layout().find("last")).shape, layout.segment(layout.find("last")).shape);
}

TEST(SharedState, IsEmptyWhereNothingIsKept) {
  const Layout layout = layout_of_test();
  for (const char* spec : {"powersgd:warm_start=false", "ternary", "powersgd:min_ratio=1000"}) {
    SharedState state(layout, plan_of(layout, spec), MemoryKind::kNone);
    EXPECT_EQ(state.layout().num_segments(), 0) << spec;
    EXPECT_EQ(state.find("first"), nullptr) << spec;
  }
}

}  // namespace
}  // namespace terngrad::shared_state_test
