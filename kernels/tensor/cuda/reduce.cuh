// Reductions over a warp or a block in one fixed order, so that results are bit-identical on every run, device and
// launch: CUB's collectives promise no order.
#pragma once

#include <cuda_runtime.h>

namespace terngrad::cuda {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Reduces the values of a warp by a butterfly: lane i combines with lanes i ^ 16, then i ^ 8, 4, 2, 1. All 32 lanes
/// must call it; all get the result, bit-identical if `op` is commutative (floating-point addition is).
template <class T, class Op>
__device__ T warp_reduce(T value, Op op) {
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance)));
  }
  return value;
}

/// Sum, maximum and bitwise OR of 32-bit integers over a warp, all independent of order. One instruction from compute
/// capability 8.0 on, else shuffles. All 32 lanes must call them; all get the result.
__device__ inline unsigned warp_sum(unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_reduce(value, [](unsigned a, unsigned b) { return a + b; });
#else
  return __reduce_add_sync(kAllLanes, value);
#endif
}
__device__ inline unsigned warp_max(unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_reduce(value, [](unsigned a, unsigned b) { return max(a, b); });
#else
  return __reduce_max_sync(kAllLanes, value);
#endif
}
__device__ inline unsigned warp_or(unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return warp_reduce(value, [](unsigned a, unsigned b) { return a | b; });
#else
  return __reduce_or_sync(kAllLanes, value);
#endif
}

/// Reduces the values of a block of `Threads` threads: each warp as above, then the warps' results in order. Every
/// thread must call it; thread 0 gets the result. Ends with a barrier, so it may be called again at once.
template <unsigned Threads, class T, class Op>
__device__ T block_reduce(T value, Op op) {
  constexpr unsigned kWarps = Threads / kWarpThreads;
  static_assert(Threads % kWarpThreads == 0 && kWarps <= kWarpThreads, "a block is 1 to 32 whole warps");
  __shared__ T of_warp[kWarps];
  value = warp_reduce(value, op);
  if (threadIdx.x % kWarpThreads == 0) of_warp[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < kWarps; ++warp) value = op(value, of_warp[warp]);
  }
  __syncthreads();  // of_warp may be written again
  return value;
}

/// Exclusive prefix sum over a block of `Threads` threads. Every thread must call it.
/// @param total  out: the sum over all threads, for every thread
/// @returns the sum over the preceding threads
template <unsigned Threads>
__device__ unsigned block_exclusive_sum(unsigned value, unsigned& total) {
  constexpr unsigned kWarps = Threads / kWarpThreads;
  static_assert(Threads % kWarpThreads == 0 && kWarps <= kWarpThreads, "a block is 1 to 32 whole warps");
  __shared__ unsigned of_warp[kWarps];
  const unsigned lane = threadIdx.x % kWarpThreads;
  unsigned sum = value;  // inclusive prefix sum within the warp
#pragma unroll
  for (unsigned distance = 1; distance < kWarpThreads; distance *= 2) {
    const unsigned before = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == kWarpThreads - 1) of_warp[threadIdx.x / kWarpThreads] = sum;
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if (warp == threadIdx.x / kWarpThreads) before = total;
    total += of_warp[warp];
  }
  __syncthreads();  // of_warp may be written again
  return before + sum - value;
}

}  // namespace terngrad::cuda
