#include "compress/exchange/mean_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::mean_check_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::Tensors;

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Layout four_tensors() {
  Layout layout;
  layout.add("summed", {5});
  layout.add("a", {5000});
  layout.add("empty", {0});
  layout.add("b", {3});
  return layout;
}

/// Checks all tensors except the first, with the CPU's kernels.
struct Check {
  Layout layout = four_tensors();
  Stream stream{Device::cpu(), 1};
  MeanCheck check;
  NonfiniteReport report;
  std::uint32_t skip = 0;
  std::uint32_t stop_latched = 0;

  explicit Check(float max = kMax) : check({.layout = layout, .workers = {}}, {1, 2, 3}, max) {}
  void run(const Tensors& mean, bool drops) {
    check.submit(mean.table, {.report = &report, .skip = drops ? &skip : nullptr, .stop_latched = &stop_latched},
                 stream);
  }
};

TEST(MeanCheck, LeavesFiniteMeansAlone) {
  for (const bool drops : {true, false}) {
    Check check;
    Tensors mean = testing::gaussian_tensors(check.layout, 1);
    mean.values[1][4999] = std::numeric_limits<float>::max();
    const auto before = mean.values;
    check.run(mean, drops);
    EXPECT_EQ(mean.values, before);
    EXPECT_EQ(check.report.count, 0u);
    EXPECT_EQ(check.skip, 0u);
  }
}

TEST(MeanCheck, CountsWhatIsAboveItsLimitAsOverflowing) {
  Check check(8.0f);
  Tensors mean = blank_tensors(check.layout);
  for (std::vector<float>& tensor : mean.values) std::ranges::fill(tensor, 1.0f);
  mean.values[1][7] = -8.0f;
  check.run(mean, true);
  EXPECT_EQ(check.skip, 0u);
  mean.values[1][7] = std::nextafter(-8.0f, -9.0f);
  check.run(mean, true);
  EXPECT_EQ(check.skip, 1u);
  EXPECT_EQ(check.report.count, 1u);
}

TEST(MeanCheck, MarksAStepThatIsToBeDropped) {
  Check check;
  Tensors mean = testing::gaussian_tensors(check.layout, 1);
  mean.values[3][2] = -kInfinity;
  check.run(mean, /*drops=*/true);
  EXPECT_EQ(check.skip, 1u);
  EXPECT_EQ(check.report.count, 1u);
  EXPECT_EQ(check.report.first(), 3u);
}

TEST(MeanCheck, ZeroesWholeTensorsWhereStepsAreKept) {
  Check check;
  Tensors mean = testing::gaussian_tensors(check.layout, 1);
  const auto before = mean.values;
  mean.values[0][0] = kInfinity;  // not checked
  mean.values[1][4321] = kNan;
  check.run(mean, /*drops=*/false);
  EXPECT_EQ(check.report.count, 1u);
  EXPECT_EQ(check.report.first(), 1u);
  EXPECT_EQ(mean.values[0][0], kInfinity);
  EXPECT_EQ(bits_of(std::span<const float>(mean.values[1])), std::vector<std::uint32_t>(5000, 0u));
  EXPECT_EQ(mean.values[3], before[3]);
}

TEST(MeanCheck, KeepsTheReportOfAStepThatStoppedTheRun) {
  Check check;
  check.stop_latched = 1;
  Tensors mean = testing::gaussian_tensors(check.layout, 1);
  mean.values[1][0] = kInfinity;
  check.run(mean, /*drops=*/true);
  EXPECT_EQ(check.report.count, 0u);
}

TEST(MeanCheck, NamesTensorsByTheirNumbersInALargerLayout) {
  Check check;
  MeanCheck part({.layout = check.layout, .workers = {}, .numbers = {40, 10, 30, 20}}, {1, 2, 3}, kMax);
  Tensors mean = testing::gaussian_tensors(check.layout, 1);
  mean.values[1][0] = mean.values[3][0] = kInfinity;
  part.submit(mean.table, {.report = &check.report, .skip = &check.skip, .stop_latched = &check.stop_latched},
              check.stream);
  EXPECT_EQ(check.report.count, 2u);
  EXPECT_EQ(check.report.first(), 10u);
}

TEST(MeanCheck, TakesNoTensors) {
  Check check;
  MeanCheck none({.layout = check.layout, .workers = {}}, {2}, kMax);
  Tensors mean = testing::gaussian_tensors(check.layout, 1);
  EXPECT_NO_THROW(none.submit(mean.table, {.report = &check.report}, check.stream));
}

}  // namespace
}  // namespace terngrad::mean_check_test
