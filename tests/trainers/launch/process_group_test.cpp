// As one rank of several (tests/mpi), or alone.
#include "trainers/launch/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress/comm/mpi/mpi_session.h"
#include "kernels/runtime/errors.h"
#include "tests/mpi/launched_group.h"
#include "trainers/launch/group_error.h"

namespace terngrad::process_group_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::launched_group;

TEST(ProcessGroup, IsTheLaunch) {
  ProcessGroup& group = launched_group();
  EXPECT_EQ(group.rank(), launched_rank().rank);
  EXPECT_EQ(group.size(), launched_rank().size);
  EXPECT_EQ(group.is_chief(), group.rank() == 0);
  EXPECT_EQ(group.is_alone(), group.size() == 1);
  EXPECT_THAT(group.name_of(group.size() - 1), HasSubstr("rank " + std::to_string(group.size() - 1) + " on "));
  EXPECT_EQ(group.hosts().size(), static_cast<std::size_t>(group.size()));
  for (const std::string& host : group.hosts()) EXPECT_FALSE(host.empty());
  // The tests do not bind ranks to processors.
  EXPECT_EQ(group.num_sharing_processors(), group.size());
}

TEST(ProcessGroup, TellsWhatTheChiefSays) {
  const ProcessGroup& group = launched_group();
  for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(100000, 'x')}) {
    EXPECT_EQ(group.broadcast_string(group.is_chief() ? text : "something else"), text);
  }
}

TEST(ProcessGroup, ContinuesWhereAllCan) {
  int calls = 0;
  launched_group().run_collective([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(ProcessGroup, AFailureOfOneIsOneOfAll) {
  const ProcessGroup& group = launched_group();
  const int failing = group.size() - 1;
  const auto body = [&] {
    if (group.rank() == failing) throw UsageError("--data_dir: there is no such folder");
  };
  if (group.is_alone()) {
    EXPECT_THROW(group.run_collective(body), UsageError);
    return;
  }
  try {
    group.run_collective(body);
    ADD_FAILURE();
  } catch (const GroupError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.is_chief(), group.is_chief());
    EXPECT_EQ(std::string(error.what()), group.name_of(failing) + ": --data_dir: there is no such folder");
  }
}

TEST(ProcessGroup, WhatAllSayIsSaidOnce) {
  const ProcessGroup& group = launched_group();
  if (group.is_alone()) GTEST_SKIP() << "takes several ranks";
  try {
    group.run_collective([] { throw DataError("the set is damaged"); });
    ADD_FAILURE();
  } catch (const GroupError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_STREQ(error.what(), "the set is damaged");
  }
  // All different errors are reported.
  try {
    group.run_collective([&] { throw DataError("file " + std::to_string(group.rank())); });
    ADD_FAILURE();
  } catch (const GroupError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(group.name_of(0) + ": file 0"), HasSubstr(group.name_of(1) + ": file 1")));
  }
}

TEST(ProcessGroup, RunGivesTheExitCodeOfAnErrorOfAll) {
  const ProcessGroup& group = launched_group();
  EXPECT_EQ(group.run("command", [] { return 7; }), 7);
  if (group.is_alone()) {
    EXPECT_THROW(group.run("command", []() -> int { throw DataError("x"); }), DataError);
    return;
  }
  ::testing::internal::CaptureStderr();
  const int code = group.run("command", [&]() -> int {
    group.run_collective([] { throw UsageError("--x: no"); });
    return 0;
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), group.is_chief() ? "command: error: --x: no\n" : "");
  EXPECT_EQ(code, 2);
}

TEST(ProcessGroup, MakesMailboxesBetweenItsRanks) {
  const ProcessGroup& group = launched_group();
  if (group.is_alone()) {
    EXPECT_THROW(static_cast<void>(group.make_mailbox()), InvalidArgument);
    return;
  }
  const std::unique_ptr<Mailbox> mailbox = group.make_mailbox();
  EXPECT_EQ(mailbox->rank(), group.rank());
  EXPECT_EQ(mailbox->size(), group.size());
}

TEST(ProcessGroup, EveryRanksTextComesInOrder) {
  const ProcessGroup& group = launched_group();
  const std::vector<std::string> texts =
      group.all_gather_strings(std::string(static_cast<std::size_t>(group.rank()), 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(group.size()));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], std::string(rank, 'x'));
}

TEST(ProcessGroup, NamesSayTheHost) {
  const ProcessGroup& group = launched_group();
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_FALSE(group.host_of(rank).empty());
    if (group.is_alone()) continue;
    EXPECT_EQ(group.name_of(rank), "rank " + std::to_string(rank) + " on " + group.host_of(rank));
  }
}

}  // namespace
}  // namespace terngrad::process_group_test
