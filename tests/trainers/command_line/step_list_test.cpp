#include "trainers/command_line/step_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_constraint.h"

namespace terngrad::step_list_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepList, StepsRangesAndPowers) {
  EXPECT_THAT(parse_step_list(""), IsEmpty());
  EXPECT_THAT(parse_step_list("0"), ElementsAre(0));
  EXPECT_THAT(parse_step_list("100,200,1000"), ElementsAre(100, 200, 1000));
  EXPECT_THAT(parse_step_list("0:100:50"), ElementsAre(0, 50, 100));
  EXPECT_THAT(parse_step_list("1:100:50"), ElementsAre(1, 51));
  EXPECT_THAT(parse_step_list("7:7:1"), ElementsAre(7));
  EXPECT_THAT(parse_step_list("1:1000:*10"), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(parse_step_list("3:20:*2"), ElementsAre(3, 6, 12));
  EXPECT_THAT(parse_step_list("0,1:8:*2,10:30:10,1000"), ElementsAre(0, 1, 2, 4, 8, 10, 20, 30, 1000));
}

TEST(StepList, NumbersUpToTheLargest) {
  EXPECT_THAT(parse_step_list("9223372036854775807"), ElementsAre(9223372036854775807));
  EXPECT_THAT(parse_step_list("9223372036854775806:9223372036854775807:1"),
              ElementsAre(9223372036854775806, 9223372036854775807));
  EXPECT_THAT(parse_step_list("4000000000000000000:9223372036854775807:*2"),
              ElementsAre(4000000000000000000, 8000000000000000000));
}

TEST(StepList, OtherTextsAreRefused) {
  for (const char* text : {",", "1,", ",1", "a", "1.5", "1e3", "-1", "1 ,2", "1:2", "1:2:3:4", "::", "1:5:0", "1:5:-1",
                           "5:1:1", "1:5:*1", "0:5:*2", "1:5:*", "1:5:2*", "1:*5:2"}) {
    EXPECT_THROW(parse_step_list(text), InvalidArgument) << text;
  }
  EXPECT_EQ(parse_step_list("1:1000000:1").size(), 1000000u);
  EXPECT_THROW(parse_step_list("0:1000000:1"), InvalidArgument);
  EXPECT_THROW(parse_step_list("0:9000000000000000000:1"), InvalidArgument);
}

TEST(StepList, StepsMustIncrease) {
  for (const char* text : {"1,1", "2,1", "0:10:5,10", "1:8:*2,4:6:1"}) {
    EXPECT_THROW(parse_step_list(text), InvalidArgument) << text;
  }
}

TEST(StepList, AsAConstraintHasAFirstStep) {
  const Constraint from_0 = step_list_from(0);
  EXPECT_TRUE(from_0.accepts_text("0,5"));
  EXPECT_TRUE(from_0.accepts_text(""));
  EXPECT_FALSE(from_0.accepts_text("5,0"));
  const Constraint from_1 = step_list_from(1);
  EXPECT_FALSE(from_1.accepts_text("0,5"));
  EXPECT_TRUE(from_1.accepts_text("1,5"));
  EXPECT_THAT(from_1.accepted, ::testing::HasSubstr("from 1 on"));
}

}  // namespace
}  // namespace terngrad::step_list_test
