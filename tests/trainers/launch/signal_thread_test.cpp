// Each test runs in its own process, because effects of signals on a process are permanent.
#include "trainers/launch/signal_thread.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "nets/net.h"
#include "tests/support/bits.h"
#include "tests/support/gradients.h"

namespace terngrad::signal_thread_test {
namespace {

class SignalThread : public ::testing::Test {
 protected:
  SignalThread() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

std::atomic<long> handled_by = 0;
std::atomic<int> times_handled = 0;

void note_thread(int) {
  handled_by = ::syscall(SYS_gettid);
  ++times_handled;
}

void wait_until_handled(int times) {
  while (times_handled < times) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Exits with 0 if handlers run neither in the main thread nor in another computing thread.
[[noreturn]] void exit_with_the_thread_of_handlers() {
  take_stop_signals_in_own_thread();
  take_stop_signals_in_own_thread();
  std::atomic<long> other_id = 0;
  std::thread other([&] {
    other_id = ::syscall(SYS_gettid);
    std::this_thread::sleep_for(std::chrono::hours(1));
  });
  while (other_id == 0) std::this_thread::yield();
  int times = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, note_thread);
    ::kill(::getpid(), signal);
    wait_until_handled(++times);
    if (handled_by == ::getpid() || handled_by == other_id) std::_Exit(1);
  }
  std::_Exit(0);
}

TEST_F(SignalThread, RunsTheHandlers) {
  EXPECT_EXIT(exit_with_the_thread_of_handlers(), ::testing::ExitedWithCode(0), "");
}

TEST_F(SignalThread, EndsTheProcessWhereNothingHandlesTheSignal) {
  const auto wait_for_the_end = [] {
    take_stop_signals_in_own_thread();
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::minutes(2));
  };
  EXPECT_EXIT(wait_for_the_end(), ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(SignalThread, LeavesAloneWhatWasIgnoredOrBlocked) {
  const auto ignore_and_block = [] {
    std::signal(SIGHUP, SIG_IGN);
    sigset_t terms;
    sigemptyset(&terms);
    sigaddset(&terms, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &terms, nullptr);
    take_stop_signals_in_own_thread();
    ::kill(::getpid(), SIGHUP);
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::_Exit(7);
  };
  EXPECT_EXIT(ignore_and_block(), ::testing::ExitedWithCode(7), "");
}

/// Gradients of twenty batches.
std::vector<std::uint32_t> computed_bits() {
  NetOptions options;
  options.examples_per_worker = 16;
  const std::unique_ptr<Net> net = make_net(net_spec("lenet"), {16, 16, 1}, 10, options);
  const auto size = static_cast<std::size_t>(net->layout().flat_elements());
  std::vector<float> parameters(size);
  net->initialize(1, parameters);
  std::vector<float> gradient(size);
  const std::vector<float> images = testing::gaussian(std::size_t{16} * 16 * 16, 1);
  const std::vector<std::int32_t> labels(16, 3);
  const std::array<float*, 1> gradients = {gradient.data()};
  const std::array<float*, 1> states = {nullptr};
  std::array<WorkerLoss, 1> losses;
  std::vector<std::uint32_t> all;
  for (std::uint64_t step = 0; step < 20; ++step) {
    net->compute_gradients(parameters, {.images = images, .labels = labels, .step = step, .states = states}, gradients,
                           losses);
    const auto bits = testing::bits_of(std::span<const float>(gradient));
    all.insert(all.end(), bits.begin(), bits.end());
  }
  return all;
}

/// Computes while the process receives signals all the time.
[[noreturn]] void compute_under_signals() {
  take_stop_signals_in_own_thread();
  const std::vector<std::uint32_t> expected = computed_bits();
  struct sigaction action = {};
  action.sa_handler = note_thread;
  ::sigaction(SIGTERM, &action, nullptr);
  std::atomic<bool> ends = false;
  std::thread sender([&] {
    while (!ends) {
      ::kill(::getpid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  bool is_same = true;
  while (times_handled < 300) is_same = is_same && computed_bits() == expected;
  ends = true;
  sender.join();
  std::_Exit(is_same ? 0 : 1);
}

TEST_F(SignalThread, NetsAreComputedUndisturbed) {
  EXPECT_EXIT(compute_under_signals(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace terngrad::signal_thread_test
