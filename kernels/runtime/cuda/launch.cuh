// Launching kernels, and dynamic shared memory: with CUB's scan (kernels/sparse/cuda/exclusive_sum.cu) the only places
// where the build for a GPU and the emulation on the CPU (tests/simt) differ in source.
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

/// Blocks of `per_block` items that cover `items`. @throws InvalidArgument beyond what a grid holds
inline unsigned num_blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  TERNGRAD_REQUIRE(blocks <= 0x7fffffff, "[cuda] ", items, " items are more than one launch can hold");
  return static_cast<unsigned>(blocks);
}

/// Launches `kernel` on `grid` blocks of `block` threads in the stream's order, and checks the launch. An empty grid
/// launches nothing.
/// @throws DeviceError
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const DeviceGuard guard(stream.device());
#ifdef SIMT_EMULATION
  simt::load_kernel(reinterpret_cast<const void*>(kernel), stream.device().index());
  // Arguments are copied, as a launch does: a captured one runs later.
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

/// The dynamic shared memory of the block.
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
