#include "nets/cuda/batch_norm.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/runtime/cuda/launch.cuh"
#include "nets/cuda/divisor.h"
#include "nets/cuda/packs.cuh"
#include "nets/cuda/row_sums.cuh"

namespace terngrad::cuda {
namespace {

/// Two sums computed together.
struct Pair {
  double first;
  double second;
};
__device__ Pair operator+(const Pair& a, const Pair& b) { return {a.first + b.first, a.second + b.second}; }

__device__ float inverse_deviation_of(float variance, float epsilon) {
  return __fdiv_rn(1.0f, __fsqrt_rn(variance + epsilon));
}

/// x and x^2, which is exact in double.
struct MomentTerm {
  const float* input;
  std::int64_t rows;
  int channels;
  __device__ Pair operator()(int worker, std::int64_t row, int channel) const {
    const double x = input[(worker * rows + row) * channels + channel];
    return {x, x * x};
  }
};

struct StoreStatistics {
  BatchStatistics statistics;
  double rows;
  int channels;
  float epsilon;
  __device__ void operator()(int worker, int /*chunk*/, int channel, const Pair& sums) const {
    const std::int64_t at = std::int64_t{worker} * channels + channel;
    const double mean = sums.first / rows;
    const double difference = sums.second / rows - mean * mean;
    const float variance = difference < 0 ? 0.0f : static_cast<float>(difference);  // keeps NaN
    statistics.mean[at] = static_cast<float>(mean);
    statistics.variance[at] = variance;
    statistics.inverse_deviation[at] = inverse_deviation_of(variance, epsilon);
  }
};

/// Range of one launch of an elementwise kernel; blockIdx.y is the worker.
struct Elements {
  std::int64_t rows_of_worker;
  std::int64_t first_row;
  int channels;
  int num_packs;  // packs per worker in this launch
  Divisor packs;  // packs per row

  /// Index of the first element of pack `item`.
  template <int kLanes>
  __device__ std::int64_t at(int item) const {
    return (blockIdx.y * rows_of_worker + first_row) * channels + std::int64_t{item} * kLanes;
  }
};

/// A pack of an optional parameter.
template <int kLanes>
__device__ Pack<kLanes> load_or_one(const float* from, int channel) {
  if (from != nullptr) return load_pack<kLanes>(from + channel);
  Pack<kLanes> ones;
#pragma unroll
  for (int k = 0; k < kLanes; ++k) ones.lanes[k] = 1;
  return ones;
}

/// Arguments of the normalization. `spread` is the inverse deviation in training, the variance in evaluation.
struct Normalization {
  const float* mean;
  const float* spread;
  BatchNormParameters parameters;
  float epsilon;
  bool has_relu;
};

template <int kLanes, bool kTraining>
__global__ void __launch_bounds__(kPackThreads)
    normalize_kernel(Elements elements, Normalization n, const float* input, float* output) {
  const int item = item_index();
  if (item >= elements.num_packs) return;
  const std::int64_t at = elements.at<kLanes>(item);
  const int channel = elements.packs.remainder(item) * kLanes;
  const std::int64_t of_worker = std::int64_t{blockIdx.y} * elements.channels + channel;
  Pack<kLanes> values = load_pack<kLanes>(input + at);
  const Pack<kLanes> mean = load_pack<kLanes>(n.mean + of_worker);
  const Pack<kLanes> spread = load_pack<kLanes>(n.spread + of_worker);
  const Pack<kLanes> gamma = load_or_one<kLanes>(n.parameters.gamma, channel);
  const Pack<kLanes> beta = load_pack<kLanes>(n.parameters.beta + channel);
#pragma unroll
  for (int k = 0; k < kLanes; ++k) {
    const float inverse = kTraining ? spread.lanes[k] : inverse_deviation_of(spread.lanes[k], n.epsilon);
    const float value = gamma.lanes[k] * ((values.lanes[k] - mean.lanes[k]) * inverse) + beta.lanes[k];
    values.lanes[k] = n.has_relu && !(value > 0) ? 0.0f : value;
  }
  store_pack(output + at, values);
}

/// The terms g and g x'.
struct GradientTerm {
  BatchNormBackward arguments;
  BatchStatistics statistics;
  std::int64_t rows;
  int channels;
  bool has_relu;
  __device__ Pair operator()(int worker, std::int64_t row, int channel) const {
    const std::int64_t at = (worker * rows + row) * channels + channel;
    const std::int64_t of_worker = std::int64_t{worker} * channels + channel;
    const bool is_stopped = has_relu && !(arguments.output[at] > 0);
    const double gradient = is_stopped ? 0.0f : arguments.output_gradient[at];
    const float x = (arguments.input[at] - statistics.mean[of_worker]) * statistics.inverse_deviation[of_worker];
    return {gradient, gradient * x};
  }
};

/// Means of g and g x' over a worker's rows, [num_workers, channels] each, for the input's gradient.
struct MeanGradients {
  float* plain;
  float* product;
};

struct StoreGradients {
  BatchNormBackward arguments;
  MeanGradients means;
  double rows;
  int channels;
  __device__ void operator()(int worker, int /*chunk*/, int channel, const Pair& sums) const {
    const WorkerBuffers<float>& beta = arguments.beta_gradients;
    const WorkerBuffers<float>& gamma = arguments.gamma_gradients;
    beta.data[worker * beta.stride + channel] = static_cast<float>(sums.first);
    if (gamma.data != nullptr) gamma.data[worker * gamma.stride + channel] = static_cast<float>(sums.second);
    const std::int64_t at = std::int64_t{worker} * channels + channel;
    means.plain[at] = static_cast<float>(sums.first / rows);
    means.product[at] = static_cast<float>(sums.second / rows);
  }
};

template <int kLanes>
__global__ void __launch_bounds__(kPackThreads)
    input_gradient_kernel(Elements elements, const float* gamma_of_channel, BatchStatistics statistics,
                          MeanGradients means, BatchNormBackward arguments, bool has_relu) {
  const int item = item_index();
  if (item >= elements.num_packs) return;
  const std::int64_t at = elements.at<kLanes>(item);
  const int channel = elements.packs.remainder(item) * kLanes;
  const std::int64_t of_worker = std::int64_t{blockIdx.y} * elements.channels + channel;
  const Pack<kLanes> input = load_pack<kLanes>(arguments.input + at);
  Pack<kLanes> gradient = load_pack<kLanes>(arguments.output_gradient + at);
  if (has_relu) {
    const Pack<kLanes> output = load_pack<kLanes>(arguments.output + at);
#pragma unroll
    for (int k = 0; k < kLanes; ++k) gradient.lanes[k] = output.lanes[k] > 0 ? gradient.lanes[k] : 0.0f;
  }
  const Pack<kLanes> mean = load_pack<kLanes>(statistics.mean + of_worker);
  const Pack<kLanes> inverse = load_pack<kLanes>(statistics.inverse_deviation + of_worker);
  const Pack<kLanes> plain = load_pack<kLanes>(means.plain + of_worker);
  const Pack<kLanes> product = load_pack<kLanes>(means.product + of_worker);
  const Pack<kLanes> gamma = load_or_one<kLanes>(gamma_of_channel, channel);
#pragma unroll
  for (int k = 0; k < kLanes; ++k) {
    const float x = (input.lanes[k] - mean.lanes[k]) * inverse.lanes[k];
    gradient.lanes[k] = gamma.lanes[k] * inverse.lanes[k] * (gradient.lanes[k] - plain.lanes[k] - x * product.lanes[k]);
  }
  store_pack(arguments.input_gradient + at, gradient);
}

/// Calls body(elements, grid) for launches over all rows, with kLanes channels per thread.
template <int kLanes, class Body>
void for_each_launch(const BatchNormShape& shape, int num_workers, const Body& body) {
  for_each_part(shape.rows, shape.channels, [&](std::int64_t first, int num_rows) {
    const int packs = shape.channels / kLanes;
    const Elements elements{shape.rows, first, shape.channels, num_rows * packs, Divisor(packs)};
    body(elements, dim3(num_blocks_for(elements.num_packs, kPackThreads), static_cast<unsigned>(num_workers)));
  });
}

bool has_relu(const BatchNormShape& shape) { return shape.activation == Activation::kRelu; }

template <bool kTraining>
void normalize(const BatchNormShape& shape, int num_workers, const Normalization& n, const float* input, float* output,
               const Stream& stream) {
  const auto run = [&](auto kernel) {
    return [&, kernel](const Elements& elements, dim3 grid) {
      launch(kernel, grid, dim3(kPackThreads), 0, stream, elements, n, input, output);
    };
  };
  if (shape.channels % kWideLanes == 0 &&
      are_aligned_for_packs(n.mean, n.spread, n.parameters.gamma, n.parameters.beta, input, output)) {
    for_each_launch<kWideLanes>(shape, num_workers, run(normalize_kernel<kWideLanes, kTraining>));
  } else {
    for_each_launch<1>(shape, num_workers, run(normalize_kernel<1, kTraining>));
  }
}

/// Scratch memory: sums of chunks, then the means of gradients.
std::int64_t chunk_sums(const BatchNormShape& shape, int num_workers) {
  return RowSumPlan(shape.rows, shape.channels).scratch_sums(num_workers);
}

}  // namespace

std::int64_t batch_norm_scratch(const BatchNormShape& shape, int num_workers) {
  constexpr std::int64_t kDoublesPerPair = sizeof(Pair) / sizeof(double);
  return kDoublesPerPair * chunk_sums(shape, num_workers) + std::int64_t{num_workers} * shape.channels;
}

void batch_norm_forward(const BatchNormShape& shape, int num_workers, const float* input,
                        const BatchNormParameters& parameters, const BatchStatistics& statistics, float* output,
                        double* scratch, const Stream& stream) {
  sum_rows(shape.rows, shape.channels, num_workers, MomentTerm{input, shape.rows, shape.channels},
           StoreStatistics{statistics, static_cast<double>(shape.rows), shape.channels, shape.epsilon},
           reinterpret_cast<Pair*>(scratch), stream);
  const Normalization n{statistics.mean, statistics.inverse_deviation, parameters, shape.epsilon, has_relu(shape)};
  normalize<true>(shape, num_workers, n, input, output, stream);
}

void batch_norm_inference(const BatchNormShape& shape, const float* input, const BatchNormParameters& parameters,
                          const float* moving_mean, const float* moving_variance, float* output, const Stream& stream) {
  const Normalization n{moving_mean, moving_variance, parameters, shape.epsilon, has_relu(shape)};
  normalize<false>(shape, 1, n, input, output, stream);
}

void batch_norm_backward(const BatchNormShape& shape, int num_workers, const BatchNormParameters& parameters,
                         const BatchStatistics& statistics, const BatchNormBackward& arguments, double* scratch,
                         const Stream& stream) {
  auto* const chunks = reinterpret_cast<Pair*>(scratch);
  auto* const means_begin = reinterpret_cast<float*>(chunks + chunk_sums(shape, num_workers));
  const MeanGradients means{means_begin, means_begin + std::int64_t{num_workers} * shape.channels};
  const bool relu = has_relu(shape);
  sum_rows(shape.rows, shape.channels, num_workers,
           GradientTerm{arguments, statistics, shape.rows, shape.channels, relu},
           StoreGradients{arguments, means, static_cast<double>(shape.rows), shape.channels}, chunks, stream);
  if (arguments.input_gradient == nullptr) return;
  const auto run = [&](auto kernel) {
    return [&, kernel](const Elements& elements, dim3 grid) {
      launch(kernel, grid, dim3(kPackThreads), 0, stream, elements, parameters.gamma, statistics, means, arguments,
             relu);
    };
  };
  if (shape.channels % kWideLanes == 0 &&
      are_aligned_for_packs(parameters.gamma, statistics.mean, statistics.inverse_deviation, means.plain, means.product,
                            arguments.input, relu ? arguments.output : nullptr, arguments.output_gradient,
                            arguments.input_gradient)) {
    for_each_launch<kWideLanes>(shape, num_workers, run(input_gradient_kernel<kWideLanes>));
  } else {
    for_each_launch<1>(shape, num_workers, run(input_gradient_kernel<1>));
  }
}

}  // namespace terngrad::cuda
