// How the CUDA backend finds the examples of a step: a ring of slots in device memory.
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

/// Slots for `num_slots` steps. That of step s is s mod num_slots.
struct SlotRing {
  std::uint64_t num_slots = 0;
  std::int64_t batch = 0;  // examples of a step
  DeviceStep step;
};

/// What a step's examples are written to, in device memory aligned to 16 bytes.
struct BatchTarget {
  float* images = nullptr;         // [batch, image_elements]
  std::int32_t* labels = nullptr;  // [batch]
};

}  // namespace terngrad::cuda
