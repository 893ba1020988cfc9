// Watchdog: a deadline for a call that cannot be given one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace terngrad {

/// Watches over calls of libraries that may wait for ever. A thread of its own acts if a call takes too long.
class Watchdog {
 public:
  /// What to do when time is up, with what was being done; called by the watchdog's thread, at most once for each
  /// watched call. Usually ends the process: nothing else ends the call.
  using Action = std::function<void(const std::string& doing)>;

  explicit Watchdog(Action action);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Calls body() and returns when it has; the action is taken if that takes longer than `seconds`. One call at a time.
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

/// The usual action: a line on stderr of who it is and what was being done, and the end of the process, exit code 1.
Watchdog::Action end_process(std::string who);

}  // namespace terngrad
