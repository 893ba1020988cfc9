#include "trainers/launch/stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::int64_t kRepeatNanoseconds = std::int64_t{StopSignal::kRepeatMilliseconds} * 1'000'000;
std::array<struct sigaction, kSignals.size()> previous_actions;

// Self-pipe: handlers may only call async-signal-safe functions such as write, and the byte stays in the pipe, so no
// signal is lost between check and wait. The pipe stays open until the process ends, as a handler may still run in
// another thread when a StopSignal is destroyed, and must not write to a reused descriptor.
std::array<int, 2> pipe_ends = {-1, -1};
std::atomic<int> write_end = -1;
std::atomic<bool> exists = false;
std::atomic<int> last_signal = 0;
// Arrival time of the first signal of each kind in monotonic nanoseconds; 0 for none.
std::array<std::atomic<std::int64_t>, kSignals.size()> first_arrival = {};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t monotonic_nanoseconds() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// True if a signal of this kind arrived at least kRepeatMilliseconds ago. Records the time of the first one.
bool is_repeated(int signal) {
  const auto kind = static_cast<std::size_t>(std::ranges::find(kSignals, signal) - kSignals.begin());
  const std::int64_t now = monotonic_nanoseconds();
  std::int64_t first = 0;
  return !first_arrival[kind].compare_exchange_strong(first, now) && now - first >= kRepeatNanoseconds;
}

void on_signal(int signal) {
  const int saved_errno = errno;
  if (is_repeated(signal)) {
    // The raised signal is blocked until this handler returns, and then ends the process.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  last_signal = signal;
  const char byte = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(write_end.load(), &byte, 1);
  errno = saved_errno;
}

void empty_pipe() {
  char byte = 0;
  while (::read(pipe_ends[0], &byte, 1) > 0) {
  }
}

}  // namespace

StopSignal::StopSignal() {
  TERNGRAD_REQUIRE(!exists.load(), "[StopSignal] there is one already");
  if (pipe_ends[0] < 0) {
    if (::pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) TERNGRAD_THROW(Error, "cannot make a pipe");
    write_end = pipe_ends[1];
  }
  exists = true;
  empty_pipe();
  last_signal = 0;
  for (std::atomic<std::int64_t>& arrival : first_arrival) arrival = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_actions[i]);
    // Keep ignored signals ignored, such as SIGHUP under nohup.
    if (previous_actions[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous_actions[i], nullptr);
  exists = false;
}

bool StopSignal::wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  // At most a year, which does not overflow the clock. A loop, since poll takes an int of milliseconds (24 days).
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 3e7)));
  for (;;) {
    const double left = std::chrono::duration<double, std::milli>(end - Clock::now()).count();
    struct pollfd watched = {.fd = pipe_ends[0], .events = POLLIN, .revents = 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::clamp(left + 1, 0.0, 1e9)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) TERNGRAD_THROW(Error, "cannot wait");
    if (Clock::now() >= end) return false;
  }
}

int StopSignal::received() const { return last_signal; }

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "a signal";
  }
}

}  // namespace terngrad
