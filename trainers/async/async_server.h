// AsyncServer: the parameter server of asynchronous training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/nonfinite.h"
#include "compress/route/exchange_report.h"
#include "compress/wire/push_messages.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "trainers/optim/optimizer.h"

namespace terngrad {

/// Options of AsyncServer.
struct AsyncServerOptions {
  int num_workers = 1;
  float scale = 1;                             // factor of every applied gradient
  std::optional<std::uint64_t> max_staleness;  // staler pushes are dropped; nullopt: no limit
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  int num_threads = 1;
};

/// Result of a push.
struct PushResult {
  int worker = 0;
  PushMetadata note;
  std::uint64_t staleness = 0;  // updates since the worker's pull
  bool is_dropped = false;      // true if it was too stale
  bool is_skipped = false;      // true if it was not applied because of NaN or infinity
  std::string nonfinite;        // see ExchangeReport::nonfinite
  double decode_seconds = 0;
  double update_seconds = 0;
};

/// Applies each push on arrival, w <- w - f(scale * g) with the optimizer's f, and answers it with the parameters:
/// asynchronous SGD with a parameter server, one gradient at a time in the order of arrival (Dean et al., "Large Scale
/// Distributed Deep Networks", NIPS 2012, section 4.1).
class AsyncServer {
 public:
  /// @param parameters, optimizer  updated in place; must outlive the server
  AsyncServer(std::shared_ptr<const PushProtocol> protocol, const AsyncServerOptions& options,
              std::span<float> parameters, Optimizer& optimizer);

  /// Worker and kind of a message; verifies its checksums. @throws CommunicationError, also for an unknown worker
  MessageLabel label_of(const Parcels& message);
  /// Applies a push with learning rate `rate`, or drops or skips it. A worker's pushes must be numbered without gaps
  /// and name the parameter version that the worker was sent last.
  /// @param step   step number for messages
  /// @param state  out: the state of the worker's net; empty if it has none
  /// @throws NonFiniteError for NaN or infinity with OnNonfinite::kStop; CommunicationError
  PushResult take_push(const Parcels& push, std::uint64_t step, double rate, std::span<float> state);

  /// Writes the answer to a worker's first pull. @param state  state of the worker's net
  void answer_pull(int worker, std::span<const float> state, Parcels& answer);
  /// Writes the answer to a push: the current parameters.
  void answer_push(int worker, Parcels& answer);
  /// Writes the answer that stops a worker. @param steps_done  steps that the run has done
  void answer_stop(int worker, std::uint64_t steps_done, Parcels& answer);

  /// Number of updates so far.
  std::uint64_t version() const { return version_; }
  /// Number of a worker's pushes, dropped ones included.
  std::uint64_t num_pushes(int worker) const { return pushes_.at(static_cast<std::size_t>(worker)); }
  /// Records that a worker continues with the parameters of an earlier version.
  void set_pulled(int worker, std::uint64_t version);

  /// Entries for CheckpointState::extra_metadata.
  std::map<std::string, std::string> state() const;
  /// Restores what state() returned; all workers must pull again. @throws DataError naming a missing or invalid entry
  void restore_state(const std::map<std::string, std::string>& entries);

 private:
  /// Decodes and scales the gradient into gradient_, and applies the options' policy for non-finite tensors.
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
  std::vector<std::optional<std::uint64_t>> pulled_;  // [num_workers] version; nullopt before the first pull
};

}  // namespace terngrad
