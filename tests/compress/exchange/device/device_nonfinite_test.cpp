// On the CPU, whose kernels set the same flags.
#include "compress/exchange/device/device_nonfinite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::device_nonfinite_test {
namespace {

constexpr int kWorkers = 3;

struct Marks {
  Layout layout;
  Stream stream{Device::cpu(), 1};
  DeviceNonfinite nonfinite;

  static Layout three_tensors() {
    Layout layout;
    for (const char* const name : {"a", "b", "c"}) layout.add(name, {4});
    return layout;
  }
  explicit Marks(OnNonfinite policy) : layout(three_tensors()), nonfinite(layout, kWorkers, policy, stream) {}

  /// Sets the flags as combine_scalers does.
  void mark(NonfiniteReport* report, std::uint64_t number) {
    if (nonfinite.skip_flag() != nullptr) *nonfinite.skip_flag() = 1;
    if (*nonfinite.stop_latched() != 0) return;
    ++report->count;
    report->inverted_first = std::max(report->inverted_first, ~number);
  }
  void mark_gradient(std::uint64_t tensor, std::uint64_t worker) {
    mark(nonfinite.gradients(), tensor * kWorkers + worker);
  }
  void mark_mean(std::uint64_t tensor) { mark(nonfinite.means(), tensor); }
  ExchangeReport settled(std::uint64_t step) {
    ExchangeReport report;
    nonfinite.apply_policy(step, report, stream);
    return report;
  }
  std::string words_of_stop(std::uint64_t step) {
    try {
      settled(step);
    } catch (const NonFiniteError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
};

TEST(DeviceNonfinite, IsSilentWhereAllIsFinite) {
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
    Marks marks(policy);
    marks.nonfinite.begin_step(marks.stream);
    const ExchangeReport report = marks.settled(0);
    EXPECT_EQ(report.nonfinite, "");
    EXPECT_FALSE(report.skipped);
    EXPECT_EQ(*marks.nonfinite.skip(), 0u);
  }
}

TEST(DeviceNonfinite, NamesTheFirstOfAllPartsInWhateverOrderTheyCame) {
  Marks marks(OnNonfinite::kSkip);
  marks.nonfinite.begin_step(marks.stream);
  marks.mark_gradient(2, 0);
  marks.mark_mean(0);
  marks.mark_gradient(1, 2);
  marks.mark_gradient(1, 1);
  const ExchangeReport report = marks.settled(7);
  EXPECT_EQ(report.nonfinite,
            "step 7: tensor 'b' of worker 1 holds NaN or infinity, or is too large for the codec (and 2 more)");
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(*marks.nonfinite.skip(), 1u);
  // The next step starts with cleared flags.
  marks.nonfinite.begin_step(marks.stream);
  EXPECT_EQ(*marks.nonfinite.skip(), 0u);
  EXPECT_EQ(marks.settled(8).nonfinite, "");
}

TEST(DeviceNonfinite, TellsOfMeansBesideGradientsWhereTheyCountAsZero) {
  Marks marks(OnNonfinite::kZero);
  EXPECT_EQ(marks.nonfinite.skip_flag(), nullptr);
  marks.nonfinite.begin_step(marks.stream);
  marks.mark_mean(2);
  EXPECT_EQ(marks.settled(1).nonfinite, "step 1: the mean of tensor 'c' overflows to infinity");
  marks.mark_gradient(0, 2);
  marks.mark_mean(1);
  const ExchangeReport report = marks.settled(1);
  EXPECT_EQ(report.nonfinite,
            "step 1: tensor 'a' of worker 2 holds NaN or infinity, or is too large for the codec; the mean of tensor "
            "'b' overflows to infinity (and 1 "
            "more)");
  EXPECT_FALSE(report.skipped);
  EXPECT_EQ(*marks.nonfinite.skip(), 0u);
}

TEST(DeviceNonfinite, AStopLastsUntilItIsForgotten) {
  Marks marks(OnNonfinite::kStop);
  marks.nonfinite.begin_step(marks.stream);
  marks.mark_gradient(2, 1);
  // Another part of the same step: it counts.
  marks.mark_gradient(1, 1);
  marks.nonfinite.begin_step(marks.stream);
  // A later step: it does not count.
  marks.mark_gradient(0, 0);
  EXPECT_EQ(*marks.nonfinite.skip(), 1u);
  EXPECT_EQ(marks.words_of_stop(3),
            "step 3: tensor 'b' of worker 1 holds NaN or infinity, or is too large for the codec (and 1 more)");
  marks.nonfinite.forget(marks.stream);
  marks.nonfinite.begin_step(marks.stream);
  EXPECT_EQ(*marks.nonfinite.skip(), 0u);
  EXPECT_EQ(marks.words_of_stop(4), "nothing was thrown");
}

}  // namespace
}  // namespace terngrad::device_nonfinite_test
