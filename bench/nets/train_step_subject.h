// TrainStepSubject: a net, its data and recipe, for benchmarks of a training step on a GPU.
#pragma once

#include <memory>
#include <string>

#include "nets/math_mode.h"

namespace terngrad {

class Dataset;
class DeviceExamples;
class DeviceNet;
class Stream;
struct CompressedAllReduceOptions;
struct WorkerRange;

namespace bench {

/// A recipe of the original's run scripts, ternary with clipping, for workers that share one GPU.
struct TrainStepSubject {
  std::string net = "lenet";  // or "cifar10_alexnet"
  int batch_size = 64;        // of all workers together
  int num_workers = 1;
  MathMode math = MathMode::kTf32;
};

/// Optimizer and hyperparameters of a net.
struct TrainStepRecipe {
  const char* optimizer;
  double weight_decay;
};
TrainStepRecipe recipe_of(const TrainStepSubject& subject);

/// `lenet`: images that stay as they are. `cifar10_alexnet`: windows that are cropped and distorted anew in each step.
std::shared_ptr<const Dataset> make_dataset_of(const TrainStepSubject& subject);
std::unique_ptr<DeviceNet> make_net_of(const TrainStepSubject& subject, const Dataset& dataset, const Stream& stream);
/// @param max_steps  most steps that are prepared at once
std::unique_ptr<DeviceExamples> make_examples_of(const TrainStepSubject& subject,
                                                 const std::shared_ptr<const Dataset>& dataset, int max_steps,
                                                 const Stream& stream);

CompressedAllReduceOptions exchange_options_of(const TrainStepSubject& subject);
/// All of them: the GPU holds every worker.
WorkerRange workers_of(const TrainStepSubject& subject);

}  // namespace bench
}  // namespace terngrad
