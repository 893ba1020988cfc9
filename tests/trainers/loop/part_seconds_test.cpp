#include "trainers/loop/part_seconds.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::part_seconds_test {
namespace {

TEST(PartSeconds, AddsEachPartToItsOwnSum) {
  ExchangeReport report;
  report.measure_seconds = 1;
  report.encode_seconds = 2;
  report.wire_seconds = 4;
  report.decode_seconds = 8;
  StepView step{.compute_seconds = 16,
                .update_seconds = 32,
                .data_seconds = 64,
                .hidden_seconds = 128,
                .exposed_seconds = 256,
                .report = report,
                .telemetry = {}};
  PartSeconds sum;
  for (int i = 0; i < 3; ++i) sum.add(step);
  EXPECT_EQ(sum.measure, 3);
  EXPECT_EQ(sum.encode, 6);
  EXPECT_EQ(sum.wire, 12);
  EXPECT_EQ(sum.decode, 24);
  EXPECT_EQ(sum.compute, 48);
  EXPECT_EQ(sum.update, 96);
  EXPECT_EQ(sum.data, 192);
  EXPECT_EQ(sum.hidden, 384);
  EXPECT_EQ(sum.exposed, 768);
  step.parts_are_timed = false;
  EXPECT_THROW(sum.add(step), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::part_seconds_test
