// What benchmarks of a training step on a GPU run: the step as it is trained with, and its parts one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/coding/coder.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/device/device_payloads.h"
#include "compress/plan/codec_plan.h"
#include "datasets/device_examples.h"
#include "kernels/statistics/scaler_sharing.h"
#include "nets/device_net.h"
#include "trainers/loop/device_replica.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/optimizer.h"

namespace terngrad::bench {

/// A recipe of the original's run scripts, ternary with clipping, for workers that share one GPU.
struct TrainStepSubject {
  std::string net = "lenet";  // or "cifar10_alexnet"
  int batch_size = 64;        // of all workers together
  int num_workers = 1;
  MathMode math = MathMode::kTf32;
};

/// The steps of a run, as terngrad_train puts them together: `lenet` on images that stay as they are, `cifar10_alexnet`
/// on windows that are cropped and distorted anew in each step.
/// @param max_burst  most steps that run without the host
std::unique_ptr<DeviceReplica> make_train_step(const TrainStepSubject& subject, int max_burst);

/// The work of one such step in parts, each of which is submitted again and again: parameters stay as they are.
class TrainStepParts {
 public:
  TrainStepParts(const TrainStepSubject& subject, const Stream& stream);

  void submit_examples() { examples_->submit({}); }
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

  /// Whether the mean is that of the exchange that runs train with, bit by bit, and not zero everywhere. All parts must
  /// have been submitted once, in their order.
  bool mean_is_right();

 private:
  Stream stream_;
  int num_workers_;
  std::unique_ptr<DeviceNet> net_;
  std::unique_ptr<DeviceExamples> examples_;
  CompressedAllReduceOptions exchange_;
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

}  // namespace terngrad::bench
