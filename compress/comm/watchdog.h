// Watchdog: a timeout for a blocking call that has none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace terngrad {

/// Watches over library calls that may block forever: a thread of its own runs an action if a call takes too long.
class Watchdog {
 public:
  /// Called by the watchdog's thread on timeout, at most once per watched call, with the name of the call. Usually ends
  /// the process, since nothing else can end the call.
  using Action = std::function<void(const std::string& doing)>;

  explicit Watchdog(Action action);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Runs body(); if it takes longer than `seconds`, runs the action with `doing`. One call at a time.
  void watch(double seconds, std::string doing, const std::function<void()>& body);

 private:
  struct Deadline {
    std::chrono::steady_clock::time_point time;
    std::string doing;
  };
  void run();

  Action action_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Deadline> deadline_;
  bool ends_ = false;
  std::thread thread_;
};

/// The usual action: prints `who` and the timed-out call to stderr, and ends the process with exit code 1.
Watchdog::Action end_process(std::string who);

}  // namespace terngrad
