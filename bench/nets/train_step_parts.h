// The parts of a training step on a GPU one by one, for benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/plan/codec_plan.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/slice.h"
#include "nets/net.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class Coder;
class DeviceExamples;
class DeviceNet;
class DevicePayloads;
class GradientTransform;
class Optimizer;

namespace bench {

struct TrainStepSubject;

/// The work of one step in parts, each of which is submitted again and again: parameters stay as they are.
class TrainStepParts {
 public:
  TrainStepParts(const TrainStepSubject& subject, const Stream& stream);
  ~TrainStepParts();

  void submit_examples();
  /// Forward and backward.
  void submit_compute();
  /// Weight decay.
  void submit_transform();
  /// Scalers, and the codes of every worker.
  void submit_encode();
  /// The mean out of the codes of all workers.
  void submit_decode();
  /// The optimizer, and the average of the parameters.
  void submit_update();

  /// True if the mean is bit-identical to the one that training runs exchange, and not zero everywhere. Call it after
  /// each part was submitted once, in order.
  bool mean_is_right();

 private:
  Stream stream_;
  WorkerRange workers_;
  std::unique_ptr<DeviceNet> net_;
  std::unique_ptr<DeviceExamples> examples_;
  CompressedAllReduceOptions exchange_options_;
  CodecPlan plan_;
  std::unique_ptr<DevicePayloads> payloads_;
  std::vector<std::unique_ptr<Coder>> coders_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientTransform> transform_;
  Buffer<float> parameters_, average_, mean_;
  Buffer<float> gradients_;  // [workers][flat elements]
  Buffer<WorkerLoss> losses_;
  Buffer<TransformCounts> counts_;
  Buffer<NonfiniteReport> report_;
  Buffer<std::uint32_t> skip_;
  std::vector<TensorTable> gradient_tables_;
  TensorTable mean_table_;
};

}  // namespace bench
}  // namespace terngrad
