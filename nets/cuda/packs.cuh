// Packs: adjacent channels that a thread accesses at once, and launches whose indices fit into 31 bits.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// Threads per block of kernels with one thread per pack.
inline constexpr unsigned kPackThreads = 256;

/// Values of kLanes channels, loaded or stored by one access.
template <int kLanes>
struct alignas(sizeof(float) * kLanes) Pack {
  float lanes[static_cast<std::size_t>(kLanes)];
};

template <int kLanes>
__device__ Pack<kLanes> load_pack(const float* from) {
  return *reinterpret_cast<const Pack<kLanes>*>(from);
}

template <int kLanes>
__device__ void store_pack(float* to, const Pack<kLanes>& pack) {
  *reinterpret_cast<Pack<kLanes>*>(to) = pack;
}

inline constexpr int kWideLanes = 4;  // 16 bytes, the widest access

/// True if packs of kWideLanes elements at these addresses are aligned.
template <class... Pointers>
bool are_aligned_for_packs(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % sizeof(Pack<kWideLanes>) == 0) && ...);
}

/// This thread's index in a launch of at most 2^30 + kPackThreads items.
__device__ inline int item_index() { return static_cast<int>(blockIdx.x * kPackThreads + threadIdx.x); }

/// Splits `count` items (rows, pixels, images) of `size` elements each into launches of at most 2^30 elements, so that
/// kernels can use int indices, and calls body(first item, number of items).
template <class Body>
void for_each_part(std::int64_t count, std::int64_t size, const Body& body) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 30;
  TERNGRAD_REQUIRE(size <= kMaxElements, "[cuda] an activation of ", size,
                   " elements is more than one launch can hold");
  if (size == 0) return;
  const std::int64_t per_part = kMaxElements / size;
  for (std::int64_t first = 0; first < count; first += per_part) {
    body(first, static_cast<int>(std::min(per_part, count - first)));
  }
}

}  // namespace terngrad::cuda
