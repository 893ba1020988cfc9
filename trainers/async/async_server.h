// AsyncServer: the parameter server of asynchronous training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/wire/push_messages.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "trainers/optim/optimizer.h"

namespace terngrad {

struct AsyncServerOptions {
  int num_workers = 1;
  float scale = 1;                             // of every gradient that is applied
  std::optional<std::uint64_t> max_staleness;  // a push that is staler is dropped; nullopt: none is
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  int num_threads = 1;
};

/// What became of a push.
struct PushResult {
  int worker = 0;
  PushMetadata note;
  std::uint64_t staleness = 0;  // updates since the worker's pull
  bool is_dropped = false;      // too stale
  bool is_skipped = false;      // NaN or infinity
  std::string nonfinite;        // as ExchangeReport::nonfinite
  double decode_seconds = 0;
  double update_seconds = 0;
};

/// Applies each push on arrival, w <- w - f(scale * g) with the optimizer's f, and answers it with the parameters: one
/// gradient at a time, in the order in which they come (asynchronous SGD with a parameter server; Dean et al., "Large
/// Scale Distributed Deep Networks", NIPS 2012, section 4.1).
class AsyncServer {
 public:
  /// @param parameters, optimizer  that it changes; they outlive it
  AsyncServer(std::shared_ptr<const PushProtocol> protocol, const AsyncServerOptions& options,
              std::span<float> parameters, Optimizer& optimizer);

  /// Whose message it is and of which kind, checksums checked. @throws CommunicationError, also for a worker that there
  /// is not
  MessageLabel label_of(const Parcels& message);
  /// Takes a push: applies it with learning rate `rate`, or drops it. Pushes of a worker are counted, and must come
  /// without gap, with the version that the worker was sent last.
  /// @param step   for words about it
  /// @param state  out: the state of the worker's net; empty if it has none
  /// @throws NonFiniteError if asked to stop on NaN or infinity; CommunicationError
  PushResult take_push(const Parcels& push, std::uint64_t step, double rate, std::span<float> state);

  /// Answers a first pull. @param state  of the worker's net
  void answer_pull(int worker, std::span<const float> state, Parcels& answer);
  void answer_push(int worker, Parcels& answer);
  /// @param steps_done  of the run
  void answer_stop(int worker, std::uint64_t steps_done, Parcels& answer);

  /// Updates so far.
  std::uint64_t version() const { return version_; }
  /// Of a worker: pushes that came, dropped ones included.
  std::uint64_t num_pushes(int worker) const { return pushes_.at(static_cast<std::size_t>(worker)); }
  /// Says that a worker continues with the parameters of an earlier version.
  void set_pulled(int worker, std::uint64_t version);

  /// What a checkpoint keeps of it, for CheckpointState::more.
  std::map<std::string, std::string> state() const;
  /// Continues from what state() gave; all workers have to pull from scratch. @throws DataError naming what is missing
  /// or wrong
  void restore_state(const std::map<std::string, std::string>& entries);

 private:
  /// Decodes the gradient into gradient_, scaled. What is not finite in it is dealt with as the options say.
  void decode(const Parcels& push, std::uint64_t number, std::uint64_t step, PushResult& result);

  std::shared_ptr<const PushProtocol> protocol_;
  AsyncServerOptions options_;
  std::span<float> parameters_;
  Optimizer& optimizer_;
  Stream stream_;
  PushMessages messages_;
  Buffer<float> gradient_;
  std::uint64_t version_ = 0;
  std::vector<std::uint64_t> pushes_;                 // [num_workers]
  std::vector<std::optional<std::uint64_t>> pulled_;  // [num_workers] version; nothing before the first pull
};

}  // namespace terngrad
