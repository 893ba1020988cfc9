// SlotRing: ring of slots in device memory, by which kernels find the examples of a step.
#pragma once

#include <cstdint>

#include "kernels/runtime/device_step.h"

namespace terngrad::cuda {

/// One example of a batch: 16 bytes, one load.
struct alignas(16) BatchEntry {
  std::uint64_t epoch;
  std::uint32_t index;
  std::int32_t label;
};

/// Slots for `num_slots` steps: step s has slot s mod num_slots.
struct SlotRing {
  std::uint64_t num_slots = 0;
  std::int64_t batch = 0;  // examples per step
  DeviceStep step;
};

/// Output buffers of a step, in device memory, 16-byte aligned.
struct BatchTarget {
  float* images = nullptr;         // [batch, image_elements]
  std::int32_t* labels = nullptr;  // [batch]
};

}  // namespace terngrad::cuda
