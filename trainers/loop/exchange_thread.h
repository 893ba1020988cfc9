// ExchangeThread: the thread that exchanges gradients while others compute them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

namespace terngrad {

/// Does one piece of work after the other, in the order in which they are submitted, beside the thread that owns it.
/// What the work of a step leaves behind may be used by the owner after `wait`, and the other way round after `submit`.
class ExchangeThread {
 public:
  /// How long the work of a step took, by whether the owner waited for it.
  struct Times {
    double hidden_seconds = 0;   // work done before `wait` was called
    double exposed_seconds = 0;  // how long `wait` took
  };

  ExchangeThread();
  /// As cancel.
  ~ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  /// Adds work to the step; any thread may. After a piece that threw, those that follow it are dropped.
  void submit(std::function<void()> work);

  /// Returns when all work of the step is done; the next step may begin then. @throws what a piece of work threw
  Times wait();

  /// Ends a step that has failed elsewhere: drops the work that has not begun, and returns when the piece under way has
  /// ended, whatever becomes of it.
  void cancel() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// Does a piece of work without the lock.
  void work_on(const std::function<void()>& work, std::unique_lock<std::mutex>& lock);
  bool is_idle() const { return queue_.empty() && !is_working_; }

  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable work_ended_;
  std::queue<std::function<void()>> queue_;
  bool is_working_ = false;
  bool ends_ = false;
  std::exception_ptr error_;
  double hidden_seconds_ = 0;
  // While the owner waits: since when. What is done after that is not hidden.
  bool is_waited_for_ = false;
  Clock::time_point waited_since_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace terngrad
