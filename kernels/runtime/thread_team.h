// ThreadTeam: a calling thread's pool for parallel loops, in builds that use std::thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace terngrad::detail {

/// The worker threads of one calling thread: created on demand, joined when the calling thread ends.
///
/// Each calling thread has its own team. If two callers shared worker threads, the hand-over would order their accesses
/// and hide a race between them from the thread sanitizer.
class ThreadTeam {
 public:
  ThreadTeam();
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// The team of the calling thread.
  static ThreadTeam& of_this_thread();

  /// Calls task(index) for each index in [0, count) concurrently, index 0 in the calling thread and each other one in
  /// its own thread, and returns when all have returned. A task may run further tasks in the team of its thread. After
  /// a fork the team's threads do not exist in the child, and the calling thread runs all tasks.
  ///
  /// @param task  must not throw
  /// @throws std::system_error if a thread cannot be created; then no task was called
  void run(int count, const std::function<void(int)>& task);

 private:
  class Worker;

  pid_t process_;
  std::size_t num_busy_ = 0;  // the first workers, occupied by calls that have not returned
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace terngrad::detail
