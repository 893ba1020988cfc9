#include "compress/memory/factor_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "compress/plan/codec_plan.h"

namespace terngrad::factor_state_test {
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

TEST(FactorState, HasAFactorOfZerosForEachTensorOfLowRank) {
  const Layout layout = layout_of_test();
  FactorState state(layout, plan_of(layout, "powersgd:rank=2"));
  ASSERT_EQ(state.layout().num_segments(), 2);
  EXPECT_EQ(state.layout().segment(0).shape, (std::vector<std::int64_t>{2, 30}));
  EXPECT_EQ(state.layout().segment(1).shape, (std::vector<std::int64_t>{2, 90}));
  for (const float value : state.values()) EXPECT_EQ(value, 0);
  EXPECT_EQ(state.find("vector"), nullptr);
  EXPECT_EQ(state.find("first"), state.values().data());
  EXPECT_EQ(state.find("last"), state.values().data() + state.layout().segment(1).offset);
}

TEST(FactorState, IsEmptyWhereNothingIsKept) {
  const Layout layout = layout_of_test();
  for (const char* spec : {"powersgd:warm_start=false", "ternary", "powersgd:min_ratio=1000"}) {
    FactorState state(layout, plan_of(layout, spec));
    EXPECT_EQ(state.layout().num_segments(), 0) << spec;
    EXPECT_EQ(state.find("first"), nullptr) << spec;
  }
}

}  // namespace
}  // namespace terngrad::factor_state_test
