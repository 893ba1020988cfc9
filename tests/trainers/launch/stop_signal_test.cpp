#include "trainers/launch/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <thread>

#include "kernels/runtime/errors.h"

namespace terngrad::stop_signal_test {
namespace {

double seconds_of(StopSignal& stop, double seconds, bool& stopped) {
  const auto begin = std::chrono::steady_clock::now();
  stopped = stop.wait(seconds);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(StopSignal, WaitsTheTimeGivenWithoutASignal) {
  StopSignal stop;
  bool stopped = true;
  EXPECT_GE(seconds_of(stop, 0.05, stopped), 0.05);
  EXPECT_FALSE(stopped);
  EXPECT_FALSE(stop.wait(0));
}

TEST(StopSignal, ASignalEndsWaiting) {
  for (const int signal : {SIGINT, SIGTERM}) {
    StopSignal stop;
    std::thread sender([signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ::kill(::getpid(), signal);
    });
    bool stopped = false;
    EXPECT_LT(seconds_of(stop, 600, stopped), 300);
    EXPECT_TRUE(stopped);
    sender.join();
  }
}

TEST(StopSignal, ASignalBeforeWaitingIsNotLost) {
  StopSignal stop;
  std::raise(SIGTERM);
  EXPECT_TRUE(stop.wait(600));
  EXPECT_TRUE(stop.wait(600));
}

TEST(StopSignal, SaysWhichSignalHasArrived) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const StopSignal stop;
    EXPECT_EQ(stop.received(), 0);
    std::raise(signal);
    EXPECT_EQ(stop.received(), signal);
  }
  EXPECT_STREQ(signal_name(SIGINT), "SIGINT");
  EXPECT_STREQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_STREQ(signal_name(SIGHUP), "SIGHUP");
  EXPECT_STREQ(signal_name(SIGUSR1), "a signal");
}

TEST(StopSignal, PutsBackWhatWasThere) {
  const auto handler = [](int) {};
  std::signal(SIGINT, handler);
  {
    const StopSignal stop;
    struct sigaction action = {};
    ::sigaction(SIGINT, nullptr, &action);
    EXPECT_NE(action.sa_handler, static_cast<void (*)(int)>(handler));
    EXPECT_THROW(StopSignal(), InvalidArgument);
  }
  struct sigaction action = {};
  ::sigaction(SIGINT, nullptr, &action);
  EXPECT_EQ(action.sa_handler, static_cast<void (*)(int)>(handler));
  std::signal(SIGINT, SIG_DFL);
}

TEST(StopSignal, AnIgnoredSignalStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    StopSignal stop;
    std::raise(SIGHUP);
    EXPECT_EQ(stop.received(), 0);
    EXPECT_FALSE(stop.wait(0));
  }
  std::signal(SIGHUP, SIG_DFL);
}

/// Raises `signals` one after the other with pauses.
[[noreturn]] void exit_after(std::initializer_list<int> signals, std::chrono::milliseconds pause) {
  const StopSignal stop;
  for (const int signal : signals) {
    std::raise(signal);
    std::this_thread::sleep_for(pause);
  }
  std::_Exit(stop.received() == *(signals.end() - 1) ? 0 : 1);
}

TEST(StopSignalDeathTest, ASecondSignalRightAfterTheFirstIsTheSameRequest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_after({SIGTERM, SIGTERM, SIGTERM}, {}), ::testing::ExitedWithCode(0), "");
}

TEST(StopSignalDeathTest, ASecondSignalASecondLaterEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::chrono::milliseconds pause(StopSignal::kRepeatMilliseconds + 10);
  EXPECT_EXIT(exit_after({SIGTERM, SIGTERM}, pause), ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(exit_after({SIGTERM, SIGINT}, pause), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace terngrad::stop_signal_test
