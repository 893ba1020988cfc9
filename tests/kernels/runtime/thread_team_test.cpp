#include "kernels/runtime/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

namespace terngrad::thread_team_test {
namespace {

using detail::ThreadTeam;
using Threads = std::vector<std::thread::id>;

Threads threads_of(ThreadTeam& team, int count) {
  Threads threads(static_cast<std::size_t>(count));
  team.run(count, [&](int index) { threads[static_cast<std::size_t>(index)] = std::this_thread::get_id(); });
  return threads;
}

TEST(ThreadTeam, RunsEachTaskInAThreadOfItsOwnAtTheSameTime) {
  ThreadTeam team;
  std::latch all_have_started(4);
  std::vector<int> calls(4);
  team.run(4, [&](int index) {
    all_have_started.arrive_and_wait();
    ++calls[static_cast<std::size_t>(index)];
  });
  EXPECT_EQ(calls, std::vector<int>(4, 1));
  Threads threads = threads_of(team, 4);
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  std::sort(threads.begin(), threads.end());
  EXPECT_EQ(std::unique(threads.begin(), threads.end()), threads.end());
}

TEST(ThreadTeam, KeepsItsThreads) {
  ThreadTeam team;
  const Threads three = threads_of(team, 3);
  const Threads five = threads_of(team, 5);
  EXPECT_TRUE(std::equal(three.begin(), three.end(), five.begin()));
  EXPECT_EQ(threads_of(team, 5), five);
  EXPECT_EQ(threads_of(team, 1), Threads{std::this_thread::get_id()});
}

TEST(ThreadTeam, ATaskOfTheCallingThreadFindsThreadsThatAreFree) {
  ThreadTeam team;
  std::latch all_have_started(5);
  std::atomic<int> calls{0};
  team.run(3, [&](int index) {
    if (index == 0) {
      team.run(3, [&](int) {
        all_have_started.arrive_and_wait();
        ++calls;
      });
    } else {
      all_have_started.arrive_and_wait();
      ++calls;
    }
  });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(threads_of(team, 3).size(), 3u);
}

TEST(ThreadTeam, CallingThreadsHaveTheirOwn) {
  ThreadTeam& own = ThreadTeam::of_this_thread();
  EXPECT_EQ(&ThreadTeam::of_this_thread(), &own);
  // Both threads must be alive when compared: ids of ended threads are reused.
  const Threads threads = threads_of(own, 2);
  Threads of_other;
  std::thread([&] { of_other = threads_of(ThreadTeam::of_this_thread(), 2); }).join();
  EXPECT_NE(of_other[1], threads[1]);
}

TEST(ThreadTeam, AForkedProcessDoesAllInItsOnlyThread) {
  std::optional<ThreadTeam> team(std::in_place);
  threads_of(*team, 3);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);  // if it waits for threads that fork did not copy
    const bool is_alone = threads_of(*team, 3) == Threads(3, std::this_thread::get_id());
    team.reset();
    ::_exit(is_alone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace terngrad::thread_team_test
