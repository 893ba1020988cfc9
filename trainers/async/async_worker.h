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

/// Components of an AsyncWorker.
struct AsyncWorkerParts {
  int worker = 0;                          // global number
  std::shared_ptr<const Dataset> dataset;  // training subset
  std::unique_ptr<Net> net;                // for this worker only
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  std::shared_ptr<const PushProtocol> protocol;
  std::string memory = "none";           // spec of its memory, for parse_memory
  bool keeps_state_of_nonfinite = true;  // false: a gradient with NaN or infinity resets the net's state
};

/// Computes gradients with the parameters that it pulled last, however stale they are. Its k-th push, dropped ones
/// included, uses its slice of the joint batch of step k, and its draws are keyed by (seed, k, worker): a push depends
/// only on k and the parameters.
class AsyncWorker {
 public:
  /// @param options  batch size, seed and threads are used
  AsyncWorker(AsyncWorkerParts parts, int num_workers, const TrainerOptions& options);
  ~AsyncWorker();
  AsyncWorker(const AsyncWorker&) = delete;
  AsyncWorker& operator=(const AsyncWorker&) = delete;

  int number() const { return parts_.worker; }

  /// Writes the request for the first parameters.
  void write_pull(Parcels& parcels);
  /// Reads the server's answer to the pull: number of the first push, parameters, state.
  /// @returns the number of steps that the run has done if the answer says stop
  std::optional<std::uint64_t> begin(const Parcels& answer);
  /// Reads the server's answer to a push. @returns as begin
  std::optional<std::uint64_t> take(const Parcels& answer);
  /// Writes the message that this worker's process sends no more pushes.
  void write_leave(Parcels& parcels);
  /// Replaces the pulled parameters by those of another version.
  void set_pulled(std::uint64_t version, std::span<const float> parameters);

  /// Waits for the examples of the next push.
  void fetch();
  /// Computes the gradient of the fetched examples.
  void compute(Stream& stream);
  /// Encodes the gradient and writes the complete push. Updates the memory, even if the server will drop the push.
  void write_push(bool asks_to_stop, Parcels& parcels, Stream& stream);

  /// Version (number of updates) of the pulled parameters, and the parameters.
  std::uint64_t version() const { return version_; }
  std::span<const float> pulled() const { return parameters_.span(); }
  /// Tensor `segment` of the last push's gradient, after transforms, for telemetry.
  std::span<const float> gradient(int segment) const;
  /// The same compensated by the memory; empty if no memory covers the tensor: the gradient itself was encoded.
  std::span<const float> encoded(int segment) const;
  /// Decodes tensor `segment` of the last push; see CompressedAllReduce::decode_local.
  float decode_sent(int segment, std::span<float> out);
  /// nullptr without a memory.
  WorkerMemory* memory() { return memory_.get(); }
  double measure_seconds() const { return measure_seconds_; }
  double encode_seconds() const { return encode_seconds_; }

 private:
  /// Writes number and first index of the non-finite tensors to `note`.
  void record_nonfinite(PushMetadata& note) const;
  std::span<const float> tensor_of(const TensorTable& table, int segment) const;

  AsyncWorkerParts parts_;
  PipelineOptions examples_;
  std::unique_ptr<Pipeline> pipeline_;  // set by begin
  PipelineBatch batch_;
  std::uint64_t push_ = 0;  // number of the next push
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
  std::vector<TensorTable> encoded_;  // compensated gradient of the last push, if there is a memory
  WorkerEncoder encoder_;
  std::span<const std::uint8_t> sent_;  // message of the last gradient
  PushMessages messages_;
  double measure_seconds_ = 0;
  double encode_seconds_ = 0;
};

}  // namespace terngrad
