// Threads that a thread keeps for its parallel loops, for builds in which std::thread serves them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace terngrad::detail {

/// The threads of one calling thread: made when they are first needed, kept until it ends, then joined.
///
/// Each calling thread has its own, so that two callers share no thread: what one did before the other would otherwise
/// be ordered by the hand-over, and a race between them hidden from the thread sanitizer.
class ThreadTeam {
 public:
  ThreadTeam();
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// That of the calling thread.
  static ThreadTeam& of_this_thread();

  /// Calls task(index) for each index in [0, count), 0 in the calling thread and each other in its own thread at
  /// the same time, and returns when all have returned. A task may run others in the team of its thread. In a process
  /// that was forked from one in which the team had threads, which have not come along, the calling thread does all.
  ///
  /// @param task  must not throw
  /// @throws std::system_error  a thread cannot be made; then no task was called
  void run(int count, const std::function<void(int)>& task);

 private:
  class Worker;

  pid_t process_;
  std::size_t num_busy_ = 0;  // the first workers, with tasks of calls that have not returned
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace terngrad::detail
