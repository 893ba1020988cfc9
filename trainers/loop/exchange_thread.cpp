#include "trainers/loop/exchange_thread.h"

#include <algorithm>
#include <utility>

namespace terngrad {
namespace {

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ExchangeThread::ExchangeThread() : thread_([this] { run(); }) {}

ExchangeThread::~ExchangeThread() {
  cancel();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_came_.notify_one();
  thread_.join();
}

void ExchangeThread::submit(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    queue_.push(std::move(work));
  }
  work_came_.notify_one();
}

ExchangeThread::Times ExchangeThread::wait() {
  std::unique_lock lock(mutex_);
  waited_since_ = Clock::now();
  is_waited_for_ = true;
  work_ended_.wait(lock, [&] { return is_idle(); });
  is_waited_for_ = false;
  const Times times{std::exchange(hidden_seconds_, 0.0), seconds(Clock::now() - waited_since_)};
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  return times;
}

void ExchangeThread::cancel() noexcept {
  std::unique_lock lock(mutex_);
  queue_ = {};
  work_ended_.wait(lock, [&] { return is_idle(); });
  error_ = nullptr;
  hidden_seconds_ = 0;
}

void ExchangeThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_came_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop();
    work_on(work, lock);
  }
}

void ExchangeThread::work_on(const std::function<void()>& work, std::unique_lock<std::mutex>& lock) {
  is_working_ = true;
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  const Clock::time_point end = Clock::now();
  lock.lock();
  is_working_ = false;
  const Clock::time_point hidden_end = is_waited_for_ ? std::clamp(waited_since_, begin, end) : end;
  hidden_seconds_ += seconds(hidden_end - begin);
  if (error) {
    error_ = error;
    queue_ = {};
  }
  if (queue_.empty()) work_ended_.notify_all();
}

}  // namespace terngrad
