#include "kernels/runtime/thread_team.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace terngrad::detail {

/// One thread and its current task.
class ThreadTeam::Worker {
 public:
  Worker() : thread_([this] { serve(); }) {}

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(const std::function<void(int)>& task, int index) {
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      index_ = index;
    }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return task_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return task_ != nullptr || is_ending_; });
      if (task_ == nullptr) return;
      lock.unlock();
      (*task_)(index_);
      lock.lock();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* task_ = nullptr;
  int index_ = 0;
  bool is_ending_ = false;
  std::thread thread_;  // last: the thread uses the other members
};

ThreadTeam::ThreadTeam() : process_(::getpid()) {}

ThreadTeam::~ThreadTeam() {
  if (process_ == ::getpid()) return;
  // After a fork the threads exist only in the parent: nothing to join. Keep the objects reachable for leak checkers,
  // if memory allows.
  static auto* const abandoned = new (std::nothrow) std::vector<std::unique_ptr<Worker>>;
  if (abandoned != nullptr) abandoned->swap(workers_);
  for (std::unique_ptr<Worker>& worker : workers_) static_cast<void>(worker.release());
}

ThreadTeam& ThreadTeam::of_this_thread() {
  thread_local ThreadTeam team;
  return team;
}

void ThreadTeam::run(int count, const std::function<void(int)>& task) {
  if (process_ != ::getpid()) {
    for (int index = 0; index < count; ++index) task(index);
    return;
  }
  const std::size_t first = num_busy_;
  const std::size_t last = first + static_cast<std::size_t>(count) - 1;
  while (workers_.size() < last) workers_.push_back(std::make_unique<Worker>());
  num_busy_ = last;
  for (int index = 1; index < count; ++index) workers_[first + static_cast<std::size_t>(index) - 1]->start(task, index);
  task(0);
  for (std::size_t i = first; i < last; ++i) workers_[i]->wait();
  num_busy_ = first;
}

}  // namespace terngrad::detail
