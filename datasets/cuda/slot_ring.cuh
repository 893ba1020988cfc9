// Device functions to find a step's slot and entries.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "datasets/cuda/slot_ring.h"

namespace terngrad::cuda {

/// The slot of the ring's current step.
__device__ inline std::int64_t slot_of(const SlotRing& ring) {
  const std::uint64_t step = ring.step.on_device != nullptr ? *ring.step.on_device : ring.step.step;
  return static_cast<std::int64_t>(step % ring.num_slots);
}

/// @param entries  [num_slots, batch]
__device__ inline BatchEntry read_entry(const BatchEntry* entries, const SlotRing& ring, std::int64_t place) {
  return entries[slot_of(ring) * ring.batch + place];
}

}  // namespace terngrad::cuda
