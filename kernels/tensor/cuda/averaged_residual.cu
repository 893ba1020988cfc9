// Averaged residuals on a GPU: one warp per block of 64 elements, two per lane.
#include "kernels/tensor/cuda/averaged_residual.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/memory_update.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kEach = kResidualBlock / kWarpThreads;
constexpr unsigned kScaleWord = kResidualBlock / sizeof(float);

__device__ bool resets(const ResidualAverage& average) {
  if (average.reset == 0) return false;
  const std::uint64_t step = average.step.on_device == nullptr ? average.step.step : *average.step.on_device;
  return step % average.reset == 0;
}

/// The residual of element i of a block.
__device__ float element_of(const float* words, unsigned i, bool is_reset) {
  return is_reset ? 0.0f : __fmul_rn(words[kScaleWord], reinterpret_cast<const signed char*>(words)[i]);
}

template <class Element>
__global__ void __launch_bounds__(kThreads) compensate_kernel(const float* state, const Element* gradient, float* out,
                                                              std::int64_t count, ResidualAverage average) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float* words = state + i / kResidualBlock * kResidualBlockWords;
  const float e = element_of(words, static_cast<unsigned>(i % kResidualBlock), resets(average));
  out[i] = __fadd_rn(e, widened(gradient[i]));
}

__global__ void __launch_bounds__(kThreads) update_kernel(const float* encoded, const float* sent, float* state,
                                                          std::int64_t count, ResidualAverage average, Keeps keeps) {
  const std::int64_t block = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarpThreads;
  if (block * kResidualBlock >= count || !keeps()) return;
  float* const words = state + block * kResidualBlockWords;
  const bool is_reset = resets(average);
  const unsigned lane = threadIdx.x % kWarpThreads;
  float next[kEach];
  unsigned max_bits = 0;  // bits of the largest magnitude, which compare as it does
#pragma unroll
  for (unsigned k = 0; k < kEach; ++k) {
    const unsigned i = lane + k * kWarpThreads;
    const std::int64_t element = block * kResidualBlock + i;
    const float unsent = element < count ? __fsub_rn(encoded[element], sent[element]) : 0.0f;
    next[k] = __fadd_rn(__fmul_rn(average.decay, element_of(words, i, is_reset)), __fmul_rn(average.weight, unsent));
    max_bits = max(max_bits, __float_as_uint(next[k]) & 0x7fffffffu);
  }
  const float scale = __fdiv_rn(__uint_as_float(warp_max(max_bits)), 127.0f);
  const bool is_kept = scale >= 0x1p-126f && scale <= 0x1.fffffep127f;
#pragma unroll
  for (unsigned k = 0; k < kEach; ++k) {
    const int code = is_kept ? __float2int_rn(__fdiv_rn(next[k], scale)) : 0;
    reinterpret_cast<signed char*>(words)[lane + k * kWarpThreads] = static_cast<signed char>(code);
  }
  if (lane == 0) words[kScaleWord] = is_kept ? scale : 0.0f;
}

}  // namespace

void compensate(const AveragedCompensateTask& task, const ResidualAverage& average, const Stream& stream) {
  with_element(task.type, [&](auto element) {
    using Element = decltype(element);
    launch(compensate_kernel<Element>, dim3(num_blocks_for(task.count, kThreads)), dim3(kThreads), 0, stream,
           task.state, static_cast<const Element*>(task.gradient), task.compensated, task.count, average);
  });
}

void update_residual(const AveragedResidualTask& task, const ResidualAverage& average, const Stream& stream) {
  launch(update_kernel, dim3(num_blocks_for(task.count, kThreads * kEach)), dim3(kThreads), 0, stream, task.encoded,
         task.sent, task.state, task.count, average, Keeps{task.flag, task.skip});
}

}  // namespace terngrad::cuda
