#include "trainers/command_line/option_declaration.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_list.h"
#include "trainers/command_line/option_set.h"

namespace terngrad::option_declaration_test {
namespace {

TEST(OptionDeclaration, SaysWhatThereIsToKnow) {
  OptionSet options("test");
  int steps = 3;
  options.add("steps", &steps, "steps to train", at_least(1))
      .alias("max_steps")
      .original("same", "num_steps")
      .needs("time", [] { return true; })
      .identity({.key = "num_steps"})
      .identity(part_of("schedule"));
  const OptionDescription step = options.descriptions().at(0);
  EXPECT_EQ(step.name, "steps");
  EXPECT_EQ(step.help, "steps to train");
  EXPECT_EQ(step.type, "integer");
  EXPECT_EQ(step.accepted, "an integer of at least 1");
  EXPECT_EQ(step.default_text, "3");
  EXPECT_EQ(step.aliases, std::vector<std::string>{"max_steps"});
  EXPECT_EQ(step.original, "same");
  EXPECT_EQ(step.original_name, "num_steps");
  EXPECT_EQ(step.needs, std::vector<std::string>{"time"});
  EXPECT_EQ(step.entries, (std::vector<std::string>{"num_steps", "schedule"}));
}

TEST(OptionDeclaration, TheRoleDecidesWhereAnOptionCounts) {
  struct Case {
    OptionRole role;
    bool in_identity, compared;
  };
  for (const Case& c : {Case{OptionRole::kResult, true, true}, Case{OptionRole::kStart, false, true},
                        Case{OptionRole::kSpeed, false, true}, Case{OptionRole::kReport, false, false},
                        Case{OptionRole::kPlace, false, false}}) {
    OptionSet options("test");
    bool value = false;
    options.add_flag("value", &value, "").role(c.role);
    EXPECT_EQ(options.identity().size(), c.in_identity ? 1u : 0u);
    EXPECT_EQ(options.descriptions().at(0).entries.size(), c.in_identity ? 1u : 0u);
    EXPECT_EQ(options.descriptions().at(0).is_compared, c.compared);
    EXPECT_EQ(options.values().at(0).same_on_all_ranks, c.role != OptionRole::kPlace);
  }
}

TEST(OptionDeclaration, TheSeedIsInTheIdentityAndNotCompared) {
  OptionSet options("test");
  int seed = 1;
  options.add("seed", &seed, "").not_compared();
  EXPECT_EQ(options.identity().size(), 1u);
  EXPECT_FALSE(options.descriptions().at(0).is_compared);
}

TEST(OptionDeclaration, WhatDecidesNoBitsHasNoEntry) {
  OptionSet options("test");
  int steps = 1;
  EXPECT_THROW(options.add("log_steps", &steps, "").role(OptionRole::kReport).identity({.key = "steps"}),
               InvalidArgument);
  EXPECT_THROW(options.add("seed", &steps, "").identity({.key = "steps"}).role(OptionRole::kReport), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::option_declaration_test
