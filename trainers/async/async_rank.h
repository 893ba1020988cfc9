// AsyncRank: the workers of one process in asynchronous training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compress/comm/mailbox.h"
#include "trainers/async/async_worker.h"

namespace terngrad {

/// Runs a rank's workers in turns against the server on rank 0, until the server says stop. While the server answers
/// one worker's push, the next worker computes.
class AsyncRank {
 public:
  /// @param workers  this rank's workers in order, at least one
  AsyncRank(std::vector<std::unique_ptr<AsyncWorker>> workers, std::shared_ptr<Mailbox> mailbox, int num_threads);

  /// @param asks_to_stop  called before each push; returns true if this rank asks to stop the run
  /// @returns number of steps of the run when the server stopped it
  /// @throws CommunicationError naming the server if it times out, and exceptions of the workers
  std::uint64_t run(const std::function<bool()>& asks_to_stop);

 private:
  void receive(Parcels& answer);
  /// Receives the outstanding answers and sends the server a leave message. @returns steps_done
  std::uint64_t leave(std::uint64_t steps_done);

  std::vector<std::unique_ptr<AsyncWorker>> workers_;
  std::shared_ptr<Mailbox> mailbox_;
  Stream stream_;
  std::size_t num_unanswered_ = 0;  // messages that the server has not answered yet
};

}  // namespace terngrad
