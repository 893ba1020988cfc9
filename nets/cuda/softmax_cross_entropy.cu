#include "nets/cuda/softmax_cross_entropy.h"

#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

/// Up to this number of classes a warp processes an example.
constexpr int kMaxWarpClasses = 128;
constexpr int kBlockThreads = 256;
/// Resident threads per multiprocessor: leaves the 64 registers that a thread needs.
constexpr int kMultiprocessorThreads = 1024;
constexpr int kWarpOfThreads = static_cast<int>(kWarpThreads);

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Or {
  __device__ int operator()(int a, int b) const { return a | b; }
};
/// Maximum that ignores NaNs, which show in the sum.
struct Greater {
  __device__ float operator()(float a, float b) const { return a < b ? b : a; }
};

/// block_reduce with the result in every thread.
template <int kThreads, class T, class Op>
__device__ T reduce_for_all(T value, Op op) {
  __shared__ T result;
  value = block_reduce<kThreads>(value, op);
  if (threadIdx.x == 0) result = value;
  __syncthreads();
  return result;
}

__device__ double quiet_nan() { return std::numeric_limits<double>::quiet_NaN(); }

/// True if the label is in [0, num_classes).
__device__ bool is_class(int label, int num_classes) { return label >= 0 && label < num_classes; }

/// Maximum of an example's logits z.
struct Maximum {
  float max;        // maximum of z without NaNs; -infinity if all are NaN
  bool is_correct;  // the label's logit is the largest, the first of equals
};

template <int kThreads>
__device__ Maximum find_maximum(const float* z, int num_classes, int label) {
  const bool has_label = is_class(label, num_classes);
  const float own = has_label ? z[label] : 0.0f;
  float max = -std::numeric_limits<float>::infinity();
  bool is_beaten = false;
  for (int j = static_cast<int>(threadIdx.x); j < num_classes; j += kThreads) {
    const float value = z[j];
    max = Greater()(max, value);
    is_beaten = is_beaten || value > own || (value == own && j < label);
  }
  max = reduce_for_all<kThreads>(max, Greater());
  is_beaten = reduce_for_all<kThreads>(static_cast<int>(is_beaten), Or()) != 0;
  // As in std::max_element, a NaN at the front is never replaced and one elsewhere never wins.
  const bool is_number = own == own && z[0] == z[0];
  return {max, has_label && is_number && !is_beaten};
}

/// One block per example.
template <int kThreads>
__global__ void __launch_bounds__(kThreads, resident_blocks(kMultiprocessorThreads / kThreads))
    softmax_kernel(const float* logits, const std::int32_t* labels, int num_classes, double smoothing, double scale,
                   float* gradient, WorkerLoss* example_losses) {
  const float* z = logits + std::int64_t{blockIdx.x} * num_classes;
  const int label = labels[blockIdx.x];
  const Maximum maximum = find_maximum<kThreads>(z, num_classes, label);
  const double max = maximum.max;
  double sum = 0;
  for (int j = static_cast<int>(threadIdx.x); j < num_classes; j += kThreads) sum += exp(z[j] - max);
  sum = reduce_for_all<kThreads>(sum, Add());
  const bool has_label = is_class(label, num_classes);
  if (!has_label) sum = quiet_nan();
  const double of_every_class = smoothing / num_classes;
  double distances = 0;  // sum of the logits' distances from the maximum, for label smoothing
  if (smoothing != 0) {
    for (int j = static_cast<int>(threadIdx.x); j < num_classes; j += kThreads) distances += z[j] - max;
    distances = reduce_for_all<kThreads>(distances, Add());
  }
  if (threadIdx.x == 0) {
    double loss = has_label ? log(sum) - (1.0 - smoothing) * (z[label] - max) : quiet_nan();
    if (smoothing != 0) loss -= of_every_class * distances;
    example_losses[blockIdx.x] = {loss, maximum.is_correct ? 1 : 0, 0.0};
  }
  if (gradient == nullptr) return;
  __syncthreads();  // the gradient may take the logits' place
  float* row = gradient + std::int64_t{blockIdx.x} * num_classes;
  for (int j = static_cast<int>(threadIdx.x); j < num_classes; j += kThreads) {
    const double probability = exp(z[j] - max) / sum;
    row[j] = static_cast<float>((probability - (j == label ? 1.0 - smoothing : 0.0) - of_every_class) * scale);
  }
}

/// One block per worker.
__global__ void __launch_bounds__(kBlockThreads)
    mean_loss_kernel(const WorkerLoss* example_losses, int examples_per_worker, double scale, bool is_auxiliary,
                     WorkerLoss* losses) {
  const WorkerLoss* of_worker = example_losses + std::int64_t{blockIdx.x} * examples_per_worker;
  double entropy_loss = 0;
  int num_correct = 0;
  for (int n = static_cast<int>(threadIdx.x); n < examples_per_worker; n += kBlockThreads) {
    entropy_loss += of_worker[n].entropy_loss;
    num_correct += of_worker[n].num_correct;
  }
  entropy_loss = block_reduce<kBlockThreads>(entropy_loss, Add());
  num_correct = block_reduce<kBlockThreads>(num_correct, Add());
  if (threadIdx.x != 0) return;
  if (is_auxiliary) {
    losses[blockIdx.x].auxiliary_loss += entropy_loss * scale;
  } else {
    losses[blockIdx.x] = {entropy_loss * scale, num_correct, 0.0};
  }
}

}  // namespace

void softmax_cross_entropy(const float* logits, const std::int32_t* labels, int examples_per_worker, int num_workers,
                           int num_classes, float* gradient, WorkerLoss* example_losses, WorkerLoss* losses,
                           const Stream& stream, const LossTerm& term) {
  TERNGRAD_REQUIRE(examples_per_worker >= 1 && num_workers >= 0 && num_classes >= 1,
                   "[softmax_cross_entropy] expected at least one example and one class, have ", examples_per_worker,
                   " examples, ", num_workers, " workers and ", num_classes, " classes");
  const double scale = 1.0 / static_cast<double>(examples_per_worker);
  const unsigned examples = num_blocks_for(std::int64_t{num_workers} * examples_per_worker, 1);
  const bool is_narrow = num_classes <= kMaxWarpClasses;
  launch(is_narrow ? softmax_kernel<kWarpOfThreads> : softmax_kernel<kBlockThreads>, dim3(examples),
         dim3(static_cast<unsigned>(is_narrow ? kWarpOfThreads : kBlockThreads)), 0, stream, logits, labels,
         num_classes, double{term.label_smoothing}, scale * double{term.weight}, gradient, example_losses);
  launch(mean_loss_kernel, dim3(static_cast<unsigned>(num_workers)), dim3(unsigned{kBlockThreads}), 0, stream,
         example_losses, examples_per_worker, term.is_auxiliary ? scale * double{term.weight} : scale,
         term.is_auxiliary, losses);
}

}  // namespace terngrad::cuda
