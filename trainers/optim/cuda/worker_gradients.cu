#include "trainers/optim/cuda/worker_gradients.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/layout.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kFirstNonfinite = 0x7f800000u;  // bits of infinity; those of NaN are larger
constexpr std::int64_t kLanes = 4;                      // elements per thread: one 16-byte access
static_assert(kFlatAlignment % kLanes == 0, "a thread's elements lie in one cache line");

dim3 grid_for(std::int64_t flat_elements, int num_workers) {
  return {num_blocks_for(flat_elements, kThreads * kLanes), static_cast<unsigned>(num_workers), 1};
}

__device__ std::int64_t first_element() { return (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kLanes; }

using Word = unsigned long long;  // 64-bit type that atomicAdd takes

/// @returns 1 if the value was replaced
__device__ unsigned zero_if_nonfinite(float& value) {
  if ((__float_as_uint(value) & kFirstNonfinite) != kFirstNonfinite) return 0;
  value = 0;
  return 1;
}

/// Stores only vectors in which an element was replaced, so that the pass usually only reads.
__global__ void __launch_bounds__(kThreads)
    zero_nonfinite_kernel(float* gradients, std::int64_t stride, std::int64_t count, TransformCounts* counts) {
  const std::int64_t first = first_element();
  unsigned of_thread = 0;
  if (first < count) {
    auto* const to = reinterpret_cast<float4*>(gradients + blockIdx.y * stride + first);
    float4 g = *to;
    of_thread = zero_if_nonfinite(g.x) + zero_if_nonfinite(g.y) + zero_if_nonfinite(g.z) + zero_if_nonfinite(g.w);
    if (of_thread != 0) *to = g;
  }
  const unsigned of_warp = warp_sum(of_thread);
  if (of_warp == 0 || threadIdx.x % kWarpThreads != 0) return;
  atomicAdd(reinterpret_cast<Word*>(&counts->zeroed_elements), Word{of_warp});
}

__global__ void __launch_bounds__(kThreads)
    weight_decay_kernel(float* gradients, std::int64_t stride, const float* __restrict__ parameters, float decay,
                        const std::uint8_t* __restrict__ is_decayed, std::int64_t flat_elements) {
  const std::int64_t first = first_element();
  if (first >= flat_elements || is_decayed[first / kFlatAlignment] == 0) return;
  auto* const to = reinterpret_cast<float4*>(gradients + blockIdx.y * stride + first);
  const float4 w = *reinterpret_cast<const float4*>(parameters + first);
  float4 g = *to;
  g.x += decay * w.x;
  g.y += decay * w.y;
  g.z += decay * w.z;
  g.w += decay * w.w;
  *to = g;
}

/// One warp per worker: its lanes load the sums, and each lane adds all of them in the order of the tensors.
__global__ void __launch_bounds__(kWarpThreads)
    clip_factors_kernel(const Statistics* __restrict__ statistics, int num_tensors, double max_norm,
                        bool zeroes_nonfinite, float* factors, TransformCounts* counts) {
  const Statistics* const of_worker = statistics + std::int64_t{blockIdx.x} * num_tensors;
  const int lane = static_cast<int>(threadIdx.x);
  double sum_squares = 0;
  int is_left = 0;
  for (int first = 0; first < num_tensors; first += static_cast<int>(kWarpThreads)) {
    double own = 0;
    if (first + lane < num_tensors) {
      const Statistics of_tensor = of_worker[first + lane];
      if (of_tensor.max_bits >= kFirstNonfinite) {
        is_left |= zeroes_nonfinite ? 0 : 1;
      } else {
        own = of_tensor.sum_squares;
      }
    }
    for (int i = 0; i < static_cast<int>(kWarpThreads); ++i) sum_squares += __shfl_sync(kAllLanes, own, i);
  }
  is_left = __any_sync(kAllLanes, is_left);
  if (lane != 0) return;
  const double norm = __dsqrt_rn(sum_squares);
  const bool clips = is_left == 0 && norm > max_norm;
  factors[blockIdx.x] = clips ? static_cast<float>(__ddiv_rn(max_norm, norm)) : 1.0f;
  if (clips) atomicAdd(reinterpret_cast<Word*>(&counts->clipped_gradients), Word{1});
}

__global__ void __launch_bounds__(kThreads)
    scale_workers_kernel(float* gradients, std::int64_t stride, const float* __restrict__ factors,
                         std::int64_t flat_elements) {
  const std::int64_t first = first_element();
  const float factor = factors[blockIdx.y];
  if (first >= flat_elements || factor == 1.0f) return;
  auto* const to = reinterpret_cast<float4*>(gradients + blockIdx.y * stride + first);
  float4 g = *to;
  g.x *= factor;
  g.y *= factor;
  g.z *= factor;
  g.w *= factor;
  *to = g;
}

}  // namespace

void zero_nonfinite(WorkerBuffers<float> gradients, int num_workers, std::int64_t count, TransformCounts* counts,
                    const Stream& stream) {
  launch(zero_nonfinite_kernel, grid_for(count, num_workers), dim3(kThreads), 0, stream, gradients.data,
         gradients.stride, count, counts);
}

void add_weight_decay(WorkerBuffers<float> gradients, int num_workers, const float* parameters, float decay,
                      const std::uint8_t* is_decayed, std::int64_t flat_elements, const Stream& stream) {
  launch(weight_decay_kernel, grid_for(flat_elements, num_workers), dim3(kThreads), 0, stream, gradients.data,
         gradients.stride, parameters, decay, is_decayed, flat_elements);
}

void clip_factors(const Statistics* statistics, int num_workers, int num_tensors, double max_norm,
                  bool zeroes_nonfinite, float* factors, TransformCounts* counts, const Stream& stream) {
  launch(clip_factors_kernel, dim3(static_cast<unsigned>(num_workers)), dim3(kWarpThreads), 0, stream, statistics,
         num_tensors, max_norm, zeroes_nonfinite, factors, counts);
}

void scale_workers(WorkerBuffers<float> gradients, int num_workers, const float* factors, std::int64_t flat_elements,
                   const Stream& stream) {
  launch(scale_workers_kernel, grid_for(flat_elements, num_workers), dim3(kThreads), 0, stream, gradients.data,
         gradients.stride, factors, flat_elements);
}

}  // namespace terngrad::cuda
