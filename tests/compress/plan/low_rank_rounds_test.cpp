#include "compress/plan/low_rank_rounds.h"

#include <gtest/gtest.h>

#include <vector>

namespace terngrad::low_rank_rounds_test {
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

TEST(LowRankRounds, AreOfFactorsWhereTensorsWere) {
  const Layout layout = layout_of_test();
  const CodecPlan plan = plan_of(layout, "powersgd:rank=2");
  EXPECT_TRUE(has_low_rank(plan));
  EXPECT_FALSE(has_low_rank(plan_of(layout, "topk")));
  const LowRankRounds rounds = low_rank_rounds(layout, plan, 3);
  EXPECT_EQ(rounds.segments, (std::vector<int>{0, 2}));
  EXPECT_EQ(rounds.first.segment(0).shape, (std::vector<std::int64_t>{2, 40}));
  EXPECT_EQ(rounds.first.segment(1).shape, (std::vector<std::int64_t>{1000}));
  EXPECT_EQ(rounds.first.segment(2).shape, (std::vector<std::int64_t>{2, 40}));
  EXPECT_EQ(rounds.second.segment(1).shape, (std::vector<std::int64_t>{2, 90}));
  EXPECT_EQ(rounds.second.segment(1).draw_offset, layout.segment(2).draw_offset);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rounds.first_plan.codec_of(i).name(), "fp32");
  // Peers with another rank or warm start refuse each other's messages.
  const LowRankRounds other = low_rank_rounds(layout, plan_of(layout, "powersgd:rank=2,warm_start=false"), 3);
  EXPECT_NE(rounds.first_plan.fingerprint(), other.first_plan.fingerprint());
  EXPECT_NE(rounds.second_plan.fingerprint(), other.second_plan.fingerprint());
}

TEST(FactorSizes, HaveNoHigherRankThanTheMatrix) {
  Layout layout;
  layout.add("m", {3, 5, 4});
  const FactorSizes sizes = factor_sizes(layout.segment(0), 8);
  EXPECT_EQ(sizes.rows, 15);
  EXPECT_EQ(sizes.columns, 4);
  EXPECT_EQ(sizes.rank, 4);
}

}  // namespace
}  // namespace terngrad::low_rank_rounds_test
