// Kernel launches and dynamic shared memory. Only here and in thrust.cuh do the GPU build and the CPU emulation
// (tests/simt) differ in source.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/runtime/cuda/check.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_guard.h"

namespace terngrad::cuda {

/// Number of blocks that cover `items` at `per_block` items each. @throws InvalidArgument beyond the grid limit
inline unsigned num_blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  TERNGRAD_REQUIRE(blocks <= 0x7fffffff, "[cuda] ", items, " items are more than one launch can hold");
  return static_cast<unsigned>(blocks);
}

/// Second argument of __launch_bounds__, the resident blocks per multiprocessor, from the number `wanted` on compute
/// capability 8.0 and 9.0 (2048 threads). Half as many on 7.5 (1024 threads); three quarters on 8.6, 8.9 and 12 (1536
/// threads), and on 10, where the compiler needs a few more registers.
constexpr int resident_blocks(int wanted) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900
  return wanted;
#elif __CUDA_ARCH__ < 800
  return wanted > 2 ? wanted / 2 : 1;
#else
  const int scaled = wanted > 1 ? 3 * wanted / 4 : 1;
  return scaled < 16 ? scaled : 16;  // 8.6 holds at most 16 blocks, whatever their size
#endif
}

/// Launches `kernel` on `grid` blocks of `block` threads in stream order and checks for launch errors. An empty grid
/// launches nothing.
/// @throws DeviceError
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const DeviceGuard guard(stream.device());
#ifdef SIMT_EMULATION
  simt::load_kernel(reinterpret_cast<const void*>(kernel), stream.device().index());
  // Copies the arguments, as a launch does: a captured launch runs later.
  simt::submit(static_cast<cudaStream_t>(stream.native()),
               [=, copies = std::tuple<std::decay_t<Parameters>...>(std::forward<Arguments>(arguments)...)] {
                 simt::launch(grid, block, shared_bytes, [&] { std::apply(kernel, copies); });
               });
#else
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream.native())>>>(
      std::forward<Arguments>(arguments)...);
#endif
  TERNGRAD_CUDA_CHECK(cudaGetLastError());
}

/// Dynamic shared memory of the block.
template <class T>
__device__ T* dynamic_shared() {
#ifdef SIMT_EMULATION
  return static_cast<T*>(simt::dynamic_shared());
#else
  extern __shared__ uint4 dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
#endif
}

}  // namespace terngrad::cuda
