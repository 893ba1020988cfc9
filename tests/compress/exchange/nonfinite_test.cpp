#include "compress/exchange/nonfinite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::nonfinite_test {
namespace {

constexpr int kWorkers = 6;

Layout three() {
  Layout layout;
  for (const char* name : {"a", "b", "c"}) layout.add(name, {70});
  return layout;
}

std::string settled(const NonfiniteTensors& found, OnNonfinite policy) {
  ExchangeReport report;
  found.apply_policy(policy, three(), kWorkers, 8, report);
  EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
  return report.nonfinite;
}

TEST(NonfiniteTensors, NothingFoundChangesNothing) {
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
    ExchangeReport report;
    NonfiniteTensors().apply_policy(policy, three(), kWorkers, 8, report);
    EXPECT_FALSE(report.skipped);
    EXPECT_EQ(report.nonfinite, "");
  }
}

TEST(NonfiniteTensors, NamesTheFirstInWhateverOrderPartsAreAdded) {
  NonfiniteTensors one;
  one.add_gradient(2, 0, kWorkers);
  one.add_gradient(2, 3, kWorkers);
  NonfiniteTensors two;
  two.add_gradient(1, 2, kWorkers);
  two.add_gradient(1, 1, kWorkers);
  for (const bool forwards : {true, false}) {
    NonfiniteTensors sum;
    sum += forwards ? one : two;
    sum += forwards ? two : one;
    EXPECT_EQ(settled(sum, OnNonfinite::kSkip),
              "step 8: tensor 'b' of worker 1 holds NaN or infinity, or is too large for the codec (and 3 more)");
    EXPECT_EQ(sum.means.count, 0u);
  }
}

TEST(NonfiniteTensors, MeansAreToldOfWhereTheStepIsNotDroppedForGradients) {
  NonfiniteTensors found;
  found.add_mean(1);
  EXPECT_EQ(settled(found, OnNonfinite::kSkip), "step 8: the mean of tensor 'b' is NaN or overflows to infinity");
  found.add_mean(0);
  found.add_gradient(2, 5, kWorkers);
  EXPECT_EQ(settled(found, OnNonfinite::kSkip),
            "step 8: tensor 'c' of worker 5 holds NaN or infinity, or is too large for the codec");
  EXPECT_EQ(settled(found, OnNonfinite::kZero),
            "step 8: tensor 'c' of worker 5 holds NaN or infinity, or is too large for the codec; the mean of tensor "
            "'a' is NaN or overflows to infinity (and 1 more)");
}

TEST(NonfiniteTensors, StopThrowsTheSameWords) {
  NonfiniteTensors found;
  found.add_gradient(0, 4, kWorkers);
  ExchangeReport report;
  EXPECT_THAT([&] { found.apply_policy(OnNonfinite::kStop, three(), kWorkers, 8, report); },
              ::testing::ThrowsMessage<NonFiniteError>(settled(found, OnNonfinite::kSkip)));
}

/// Flags on the CPU, set as kernels set them.
struct Marks {
  Stream stream{Device::cpu(), 1};
  NonfiniteFlags flags;

  explicit Marks(OnNonfinite policy) : flags(policy, stream) { flags.begin_step(stream); }
  void mark(NonfiniteReport* report, std::uint64_t number) {
    if (flags.skip_flag() != nullptr) *flags.skip_flag() = 1;
    if (*flags.stop_latched() != 0) return;
    ++report->count;
    report->inverted_first = std::max(report->inverted_first, ~number);
  }
};

TEST(NonfiniteFlags, AreClearedByEachStep) {
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip}) {
    Marks marks(policy);
    EXPECT_EQ(*marks.flags.skip(), 0u);
    EXPECT_TRUE(marks.flags.found(marks.stream).empty());
    marks.mark(marks.flags.gradients(), 8);
    marks.mark(marks.flags.means(), 2);
    EXPECT_EQ(*marks.flags.skip(), 1u);
    const NonfiniteTensors found = marks.flags.found(marks.stream);
    EXPECT_EQ(found.gradients.first(), 8u);
    EXPECT_EQ(found.means.first(), 2u);
    marks.flags.begin_step(marks.stream);
    EXPECT_EQ(*marks.flags.skip(), 0u);
    EXPECT_TRUE(marks.flags.found(marks.stream).empty());
  }
}

TEST(NonfiniteFlags, DropNoStepWhoseTensorsCountAsZeros) {
  Marks marks(OnNonfinite::kZero);
  EXPECT_EQ(marks.flags.skip_flag(), nullptr);
  marks.mark(marks.flags.gradients(), 0);
  EXPECT_EQ(*marks.flags.skip(), 0u);
  EXPECT_EQ(marks.flags.found(marks.stream).gradients.count, 1u);
}

}  // namespace
}  // namespace terngrad::nonfinite_test
