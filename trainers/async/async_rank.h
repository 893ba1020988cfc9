// AsyncRank: a process of workers in asynchronous training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compress/comm/mailbox.h"
#include "trainers/async/async_worker.h"

namespace terngrad {

/// Runs some of the workers, in turns, against the server on rank 0, until the server says stop. While the server
/// answers one worker's push, the next one computes.
class AsyncRank {
 public:
  /// @param workers  of this rank, in order, at least one
  AsyncRank(std::vector<std::unique_ptr<AsyncWorker>> workers, std::shared_ptr<Mailbox> mailbox, int num_threads);

  /// @param asks_to_stop  looked at before each push: whether this rank wants the run to end
  /// @returns steps of the run that the server had done at the end
  /// @throws CommunicationError naming the server if it is silent for too long, and whatever a part throws
  std::uint64_t run(const std::function<bool()>& asks_to_stop);

 private:
  void receive(Parcels& answer);
  /// Takes what the server still answers, and tells it that this rank leaves.
  std::uint64_t leave(std::uint64_t steps_done);

  std::vector<std::unique_ptr<AsyncWorker>> workers_;
  std::shared_ptr<Mailbox> mailbox_;
  Stream stream_;
  std::size_t num_unanswered_ = 0;  // messages to the server
};

}  // namespace terngrad
