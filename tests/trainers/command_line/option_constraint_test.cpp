#include "trainers/command_line/option_constraint.h"

#include <gtest/gtest.h>

namespace terngrad::option_constraint_test {
namespace {

TEST(OptionConstraint, OneOfNumbers) {
  const Constraint constraint = one_of({1, 2, 4});
  EXPECT_TRUE(constraint.accepts_number(4));
  EXPECT_FALSE(constraint.accepts_number(3));
  EXPECT_EQ(constraint.accepted, "one of 1, 2, 4");
  EXPECT_EQ(constraint.value_name, "1|2|4");
}

TEST(OptionConstraint, OneOfWords) {
  const Constraint constraint = one_of({"gd", "adam"});
  EXPECT_TRUE(constraint.accepts_text("adam"));
  EXPECT_FALSE(constraint.accepts_text("ada"));
  EXPECT_EQ(constraint.accepted, "one of gd, adam");
}

TEST(OptionConstraint, RangesHaveTheEndsTheySay) {
  EXPECT_TRUE(at_least(1).accepts_number(1));
  EXPECT_FALSE(at_least(1).accepts_number(0.5));
  EXPECT_FALSE(greater_than(0).accepts_number(0));
  EXPECT_TRUE(greater_than(0).accepts_number(1e-300));
  EXPECT_TRUE(in_range(0, 1).accepts_number(0));
  EXPECT_TRUE(in_range(0, 1).accepts_number(1));
  EXPECT_FALSE(in_range(0, 1).accepts_number(1.5));
  EXPECT_TRUE(from_up_to(0, 1).accepts_number(0));
  EXPECT_FALSE(from_up_to(0, 1).accepts_number(1));
  EXPECT_EQ(in_range(0, 0.5).accepted, "a number from 0 to 0.5");
  EXPECT_EQ(in_range(0, 5).accepted_integers, "an integer from 0 to 5");
}

TEST(OptionConstraint, OwnTests) {
  EXPECT_TRUE(number_where("even", [](double number) { return number == 2; }).accepts_number(2));
  EXPECT_FALSE(text_where("short", [](const std::string& text) { return text.size() < 2; }).accepts_text("ab"));
}

TEST(Constraint, AlsoAsFp32RefusesWhatRoundingMakesAnotherNumber) {
  const Constraint rate = also_as_fp32(greater_than(0));
  EXPECT_TRUE(rate.accepts_number(0.1));
  EXPECT_FALSE(rate.accepts_number(0));
  EXPECT_FALSE(rate.accepts_number(1e-60));
  EXPECT_FALSE(rate.accepts_number(1e39));
  const Constraint decay = also_as_fp32(from_up_to(0, 1));
  EXPECT_TRUE(decay.accepts_number(0));
  EXPECT_TRUE(decay.accepts_number(0.9999999));
  EXPECT_FALSE(decay.accepts_number(0.999999999));
}

}  // namespace
}  // namespace terngrad::option_constraint_test
