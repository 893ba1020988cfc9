#include "trainers/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::schedule_test {
namespace {

TEST(Schedule, FixedNeverChanges) {
  const Schedule schedule{.kind = ScheduleKind::kFixed, .initial_rate = 0.01};
  EXPECT_EQ(schedule.rate(0), 0.01);
  EXPECT_EQ(schedule.rate(1'000'000'000), 0.01);
}

TEST(Schedule, OwnTakesThePlaceOfTheKind) {
  const Schedule schedule{.initial_rate = 0.5,
                          .own = [](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }};
  EXPECT_EQ(schedule.rate(3), 0.25);
}

TEST(Schedule, PolynomialFollowsTheSquareRootToZero) {
  const Schedule schedule{.kind = ScheduleKind::kPolynomial, .initial_rate = 0.02, .total_steps = 10000};
  EXPECT_EQ(schedule.rate(0), 0.02);
  EXPECT_EQ(schedule.rate(7500), 0.01);
  EXPECT_EQ(schedule.rate(10000), 0.0);
  EXPECT_EQ(schedule.rate(10001), 0.0);
  for (std::int64_t t = 0; t < 10000; t += 37) {
    EXPECT_NEAR(schedule.rate(t), 0.02 * std::pow(1.0 - static_cast<double>(t) / 10000, 0.5), 1e-16);
  }
}

TEST(Schedule, ExponentialIsAStaircase) {
  const Schedule schedule{
      .kind = ScheduleKind::kExponential, .initial_rate = 0.5, .steps_per_decay = 100, .decay_factor = 0.1};
  EXPECT_EQ(schedule.rate(0), 0.5);
  EXPECT_EQ(schedule.rate(99), 0.5);
  EXPECT_EQ(schedule.rate(100), 0.5 * 0.1);
  EXPECT_EQ(schedule.rate(199), 0.5 * 0.1);
  for (std::int64_t t = 0; t < 3000; t += 13) {
    const double expected = 0.5 * std::pow(0.1, static_cast<double>(t / 100));
    EXPECT_NEAR(schedule.rate(t), expected, expected * 1e-14);
  }
  EXPECT_EQ(schedule.rate(std::int64_t{1} << 40), 0.0) << "underflows to zero, in few operations";
}

TEST(Schedule, StepsPerDecayIsTheIntegerPart) {
  EXPECT_EQ(steps_per_decay(60000, 64, 1.0), 937);
  EXPECT_EQ(steps_per_decay(50000, 128, 200.0), 78125);
  EXPECT_EQ(steps_per_decay(100, 64, 0.5), 1) << "never 0";
  EXPECT_THROW(steps_per_decay(100, 0, 1.0), InvalidArgument);
  EXPECT_THROW(steps_per_decay(100, 1, -1.0), InvalidArgument);
  EXPECT_THROW(steps_per_decay(100, 1, std::nan("")), InvalidArgument);
}

TEST(Schedule, ImpossibleStepsAreRefused) {
  EXPECT_THROW(Schedule{}.rate(-1), InvalidArgument);
  const Schedule exponential{.kind = ScheduleKind::kExponential, .steps_per_decay = 0};
  EXPECT_THROW(exponential.rate(0), InvalidArgument);
  const Schedule polynomial{.kind = ScheduleKind::kPolynomial, .total_steps = 0};
  EXPECT_THROW(polynomial.rate(0), InvalidArgument);
}

TEST(Schedule, StepsDropTheRateFromEachBoundaryOn) {
  const Schedule schedule{
      .kind = ScheduleKind::kSteps, .initial_rate = 0.5, .decay_factor = 0.1, .boundaries = {3, 4, 1000}};
  EXPECT_EQ(schedule.rate(0), 0.5);
  EXPECT_EQ(schedule.rate(2), 0.5);
  EXPECT_EQ(schedule.rate(3), 0.5 * 0.1);
  EXPECT_EQ(schedule.rate(4), 0.5 * (0.1 * 0.1));
  EXPECT_EQ(schedule.rate(999), 0.5 * (0.1 * 0.1));
  EXPECT_EQ(schedule.rate(1000), 0.5 * ((0.1 * 0.1) * 0.1));
  EXPECT_EQ(schedule.rate(std::int64_t{1} << 60), schedule.rate(1000));
}

TEST(Schedule, StepsAtEqualDistancesAreTheExponentialStaircase) {
  const Schedule steps{
      .kind = ScheduleKind::kSteps, .initial_rate = 0.3, .decay_factor = 0.94, .boundaries = {7, 14, 21, 28}};
  const Schedule staircase{
      .kind = ScheduleKind::kExponential, .initial_rate = 0.3, .steps_per_decay = 7, .decay_factor = 0.94};
  for (std::int64_t step = 0; step < 35; ++step) EXPECT_EQ(steps.rate(step), staircase.rate(step)) << step;
}

TEST(Schedule, BoundariesIncrease) {
  const Schedule none{.kind = ScheduleKind::kSteps, .initial_rate = 0.3, .boundaries = {}};
  EXPECT_EQ(none.rate(5), 0.3);
  for (const std::vector<std::int64_t>& boundaries : {std::vector<std::int64_t>{2, 2}, {3, 2}}) {
    const Schedule schedule{.kind = ScheduleKind::kSteps, .boundaries = boundaries};
    EXPECT_THROW(schedule.rate(0), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::schedule_test
