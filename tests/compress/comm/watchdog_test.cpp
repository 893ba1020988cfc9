#include "compress/comm/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::watchdog_test {
namespace {

using ::testing::ElementsAre;

/// Records the watchdog's complaints.
class Complaints {
 public:
  Watchdog::Action action() {
    return [this](const std::string& doing) {
      const std::lock_guard lock(mutex_);
      doing_.push_back(doing);
      ++count_;
    };
  }
  void wait_for(int count) const {
    while (count_ < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<std::string> doing() const {
    const std::lock_guard lock(mutex_);
    return doing_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> doing_;
  std::atomic<int> count_ = 0;
};

TEST(Watchdog, ComplainsOnceOfACallThatTakesTooLong) {
  Complaints complaints;
  Watchdog watchdog(complaints.action());
  for (const char* doing : {"first", "second"}) {
    const int before = static_cast<int>(complaints.doing().size());
    watchdog.watch(0.01, doing, [&] {
      complaints.wait_for(before + 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
  }
  EXPECT_THAT(complaints.doing(), ElementsAre("first", "second"));
}

TEST(Watchdog, IsSilentAboutCallsInTime) {
  Complaints complaints;
  {
    Watchdog watchdog(complaints.action());
    int calls = 0;
    for (int i = 0; i < 100; ++i) watchdog.watch(60, "quick", [&] { ++calls; });
    watchdog.watch(std::numeric_limits<double>::infinity(), "endless", [&] { ++calls; });
    EXPECT_EQ(calls, 101);
    EXPECT_THROW(watchdog.watch(0.02, "failing", [] { throw DataError("x"); }), DataError);
    // Calls that have ended, also by an exception, are no longer watched.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_THAT(complaints.doing(), ElementsAre());
}

TEST(WatchdogDeathTest, EndsAProcessThatHangsAndSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog(end_process("rank 1"));
        watchdog.watch(0.01, "a call has not ended", [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
      },
      ::testing::ExitedWithCode(1), "^rank 1: a call has not ended\n$");
}

TEST(Watchdog, RefusesNoTime) {
  Watchdog watchdog([](const std::string&) {});
  EXPECT_THROW(watchdog.watch(0, "x", [] {}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::watchdog_test
