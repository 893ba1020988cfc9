// ExchangeThread: exchanges gradients while other threads compute them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

namespace terngrad {

/// A thread that runs submitted tasks one after the other, in the order of submission. `submit` and `wait` synchronize
/// memory: a task sees what was written before its `submit`, the owner sees the tasks' results after `wait`.
class ExchangeThread {
 public:
  /// Times of a step's tasks.
  struct Times {
    double hidden_seconds = 0;   // run time of tasks before `wait` was called
    double exposed_seconds = 0;  // duration of `wait`
  };

  ExchangeThread();
  /// Cancels as `cancel`, then joins the thread.
  ~ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  /// Adds a task to the step; thread-safe. Tasks after one that threw are dropped.
  void submit(std::function<void()> work);

  /// Waits for all tasks of the step; the next step may begin then. @throws the exception of a task
  Times wait();

  /// Ends a step that failed elsewhere: drops tasks that have not begun, waits for the running one, ignores errors.
  void cancel() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// Runs a task with the lock released.
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
  // Set while the owner waits, with the time since when: tasks after that are not hidden.
  bool is_waited_for_ = false;
  Clock::time_point waited_since_;
  std::thread thread_;  // last member, as it uses the others
};

}  // namespace terngrad
