#include "compress/exchange/nonfinite.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/runtime/errors.h"

namespace terngrad::nonfinite_test {
namespace {

Layout three() {
  Layout layout;
  for (const char* name : {"a", "b", "c"}) layout.add(name, {70});
  return layout;
}

std::string settled(const NonfiniteTensors& found, OnNonfinite policy) {
  ExchangeReport report;
  found.apply_policy(policy, 8, report);
  EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
  return report.nonfinite;
}

TEST(NonfiniteTensors, NothingFoundChangesNothing) {
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
    ExchangeReport report;
    NonfiniteTensors().apply_policy(policy, 8, report);
    EXPECT_FALSE(report.skipped);
    EXPECT_EQ(report.nonfinite, "");
  }
}

TEST(NonfiniteTensors, NamesTheFirstInWhateverOrderPartsAreAdded) {
  const Layout layout = three();
  const std::array<int, 1> last = {2};
  const std::array<int, 2> others = {1, 0};
  NonfiniteTensors one;
  one.add_gradient(layout.select(last).segment(0), 0);
  one.add_gradient(layout.select(last).segment(0), 3);
  NonfiniteTensors two;
  two.add_gradient(layout.select(others).segment(0), 2);  // tensor "b"
  two.add_gradient(layout.select(others).segment(0), 1);
  for (const bool forwards : {true, false}) {
    NonfiniteTensors sum;
    sum.add(forwards ? one : two);
    sum.add(forwards ? two : one);
    EXPECT_EQ(settled(sum, OnNonfinite::kSkip),
              "step 8: tensor 'b' of worker 1 holds NaN or infinity, or is too large for the codec (and 3 more)");
    EXPECT_TRUE(sum.has_gradients());
    EXPECT_FALSE(sum.has_means());
  }
}

TEST(NonfiniteTensors, MeansAreToldOfWhereTheStepIsNotDroppedForGradients) {
  const Layout layout = three();
  NonfiniteTensors found;
  found.add_mean(layout.segment(1));
  EXPECT_EQ(settled(found, OnNonfinite::kSkip), "step 8: the mean of tensor 'b' overflows to infinity");
  found.add_mean(layout.segment(0));
  found.add_gradient(layout.segment(2), 5);
  EXPECT_EQ(settled(found, OnNonfinite::kSkip),
            "step 8: tensor 'c' of worker 5 holds NaN or infinity, or is too large for the codec");
  EXPECT_EQ(settled(found, OnNonfinite::kZero),
            "step 8: tensor 'c' of worker 5 holds NaN or infinity, or is too large for the codec; the mean of tensor "
            "'a' overflows to infinity (and 1 "
            "more)");
}

TEST(NonfiniteTensors, StopThrowsTheSameWords) {
  NonfiniteTensors found;
  found.add_gradient(three().segment(0), 4);
  try {
    ExchangeReport report;
    found.apply_policy(OnNonfinite::kStop, 8, report);
    FAIL() << "nothing was thrown";
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(error.what(), settled(found, OnNonfinite::kSkip));
  }
}

}  // namespace
}  // namespace terngrad::nonfinite_test
