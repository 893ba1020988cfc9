// As one rank of several (tests/mpi).
#include "trainers/run/rank_consistency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/runtime/errors.h"
#include "tests/mpi/launched_group.h"
#include "trainers/launch/group_error.h"

namespace terngrad::rank_consistency_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::launched_group;

std::vector<OptionValue> options_with(const std::string& name, std::int64_t value, bool same_on_all_ranks = true) {
  return {{.name = name, .value = value, .same_on_all_ranks = same_on_all_ranks},
          {.name = "net", .value = std::string("lenet")}};
}

TEST(RankOptions, EqualOnesAreFine) {
  EXPECT_NO_THROW(require_same_on_all_ranks(launched_group(), options_with("save_iter", 3), {{"seed", "1"}}));
}

TEST(RankOptions, WhatARankHasOfItsOwnMayDiffer) {
  const ProcessGroup& group = launched_group();
  EXPECT_NO_THROW(require_same_on_all_ranks(group, options_with("threads", group.rank(), false), {}));
}

TEST(RankOptions, OthersAreRefusedByName) {
  const ProcessGroup& group = launched_group();
  if (group.is_alone()) GTEST_SKIP() << "takes several ranks";
  const int last = group.size() - 1;
  const bool differs = group.rank() == last;
  const auto message = [&](const std::vector<OptionValue>& options, const RecordedIdentity& identity) -> std::string {
    try {
      require_same_on_all_ranks(group, options, identity);
    } catch (const GroupError& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(options_with("save_iter", differs ? 4 : 3), {}),
              AllOf(HasSubstr(group.name_of(last) + ": --save_iter is 4 here and 3 for " + group.name_of(0))));
  EXPECT_THAT(message({}, {{"data_fingerprint", differs ? "b" : "a"}}), HasSubstr("data_fingerprint is b here and a"));
  EXPECT_THAT(message(differs ? std::vector<OptionValue>{} : options_with("save_iter", 3), {}),
              HasSubstr("is nothing here"));
}

}  // namespace
}  // namespace terngrad::rank_consistency_test
