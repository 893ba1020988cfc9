// AsyncWorker: one worker of asynchronous training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/wire/push_messages.h"
#include "compress/wire/worker_encoder.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/buffer.h"
#include "nets/net.h"
#include "trainers/loop/trainer.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class WorkerMemory;

struct AsyncWorkerParts {
  int worker = 0;                          // global number
  std::shared_ptr<const Dataset> dataset;  // training subset
  std::unique_ptr<Net> net;                // of this worker alone
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  std::shared_ptr<const PushProtocol> protocol;
  std::string memory = "none";           // what it keeps from push to push: a spec, as parse_memory takes it
  bool keeps_state_of_nonfinite = true;  // else a pass whose gradient has NaN or infinity leaves the state as it was
};

/// Computes gradients with the parameters that it last pulled, and knows nothing of what happened to them since. Its
/// k-th push, dropped ones included, is its slice of the joint batch of step k, and its draws are keyed by (seed, k,
/// its number): what it sends depends on k and the parameters alone.
class AsyncWorker {
 public:
  /// @param options  batch size, seed and threads; the workers' number is given with them
  AsyncWorker(AsyncWorkerParts parts, int num_workers, const TrainerOptions& options);
  ~AsyncWorker();
  AsyncWorker(const AsyncWorker&) = delete;
  AsyncWorker& operator=(const AsyncWorker&) = delete;

  int number() const { return parts_.worker; }

  /// Asks for the first parameters.
  void write_pull(Parcels& parcels);
  /// Takes the server's answer to that: where to begin, parameters, state.
  /// @returns the number of steps that the run has done if the answer is to stop
  std::optional<std::uint64_t> begin(const Parcels& answer);
  /// Takes the server's answer to a push. @returns as begin
  std::optional<std::uint64_t> take(const Parcels& answer);
  /// Says that this worker's process pushes no more.
  void write_leave(Parcels& parcels);
  /// Continues with other parameters than the answer had.
  void set_pulled(std::uint64_t version, std::span<const float> parameters);

  /// Waits for the examples of the next push.
  void fetch();
  /// Computes their gradient.
  void compute(Stream& stream);
  /// Encodes it: the push, complete. What a memory keeps of it is kept then, whatever the server makes of the push.
  void write_push(bool asks_to_stop, Parcels& parcels, Stream& stream);

  /// Updates that the parameters have seen, and they themselves.
  std::uint64_t version() const { return version_; }
  std::span<const float> pulled() const { return parameters_.span(); }
  /// Of the last push, for telemetry: tensor `segment` as it was encoded, and as it was sent, as Strategy::decode_sent.
  std::span<const float> gradient(int segment) const;
  /// What a memory made of it; empty: it was encoded as it is.
  std::span<const float> encoded(int segment) const;
  float decode_sent(int segment, std::span<float> out);
  /// nullptr: it keeps nothing.
  WorkerMemory* memory() { return memory_.get(); }
  double measure_seconds() const { return measure_seconds_; }
  double encode_seconds() const { return encode_seconds_; }

 private:
  void record_nonfinite(PushMetadata& note) const;
  std::span<const float> tensor_of(const TensorTable& table, int segment) const;

  AsyncWorkerParts parts_;
  PipelineOptions examples_;
  std::unique_ptr<Pipeline> pipeline_;  // from begin on
  PipelineBatch batch_;
  std::uint64_t push_ = 0;  // number of the next one
  std::uint64_t version_ = 0;
  Buffer<float> parameters_;
  Buffer<float> state_;
  Buffer<float> state_before_;
  Buffer<float> gradient_;
  TensorTable gradient_table_;
  WorkerLoss loss_;
  TransformCounts counts_;
  std::unique_ptr<WorkerMemory> memory_;
  std::vector<int> all_segments_;
  WorkerEncoder encoder_;
  std::span<const std::uint8_t> sent_;  // the last gradient's message
  PushMessages messages_;
  double measure_seconds_ = 0;
  double encode_seconds_ = 0;
};

}  // namespace terngrad
