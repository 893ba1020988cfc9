#include "trainers/async/async_rank.h"

#include <array>
#include <optional>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kServer = 0;

}  // namespace

AsyncRank::AsyncRank(std::vector<std::unique_ptr<AsyncWorker>> workers, std::shared_ptr<Mailbox> mailbox,
                     int num_threads)
    : workers_(std::move(workers)), mailbox_(std::move(mailbox)), stream_(Device::cpu(), num_threads) {
  TERNGRAD_REQUIRE(!workers_.empty(), "[async] a rank of workers has one at least");
}

void AsyncRank::receive(Parcels& answer) {
  static constexpr std::array<int, 1> kAwaited = {kServer};
  const int from = mailbox_->receive(kAwaited, answer);
  if (from != kServer) {
    TERNGRAD_THROW(CommunicationError, "[async] rank ", from, " sends to a worker; only rank ", kServer, " does");
  }
  --num_unanswered_;
}

std::uint64_t AsyncRank::run(const std::function<bool()>& asks_to_stop) {
  const auto send = [&](Parcels message) {
    mailbox_->send(kServer, std::move(message));
    ++num_unanswered_;
  };
  for (const auto& worker : workers_) {
    Parcels pull;
    worker->write_pull(pull);
    send(std::move(pull));
  }
  Parcels answer;
  // Answers arrive in the order of the messages, which is that of the turns.
  for (bool is_first_round = true;; is_first_round = false) {
    for (const auto& worker : workers_) {
      receive(answer);
      const std::optional<std::uint64_t> stopped = is_first_round ? worker->begin(answer) : worker->take(answer);
      if (stopped) return leave(*stopped);
      worker->fetch();
      worker->compute(stream_);
      Parcels push;
      worker->write_push(asks_to_stop(), push, stream_);
      send(std::move(push));
    }
  }
}

std::uint64_t AsyncRank::leave(std::uint64_t steps_done) {
  Parcels answer;
  while (num_unanswered_ > 0) receive(answer);
  Parcels message;
  workers_.front()->write_leave(message);
  mailbox_->send(kServer, std::move(message));
  mailbox_->flush();
  return steps_done;
}

}  // namespace terngrad
