// Images that are as the net takes them, copied into a step's batch on a GPU.
#pragma once

#include <cstdint>

#include "datasets/cuda/slot_ring.h"
#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Writes the images that the entries of the ring's step name.
/// @param examples  [examples, image_elements] in device memory, aligned to 16 bytes
/// @param entries   [num_slots, batch]
void gather_images(const float* examples, std::int64_t image_elements, const BatchEntry* entries, const SlotRing& ring,
                   const BatchTarget& target, const Stream& stream);

/// Writes the slot of the ring's step.
/// @param slot_values  floats from slot to slot, a multiple of 4; that many are copied, so that target.images has room
/// @param images       [num_slots, slot_values], aligned to 16 bytes
/// @param labels       [num_slots, batch]
void copy_slot(const float* images, std::int64_t slot_values, const std::int32_t* labels, const SlotRing& ring,
               const BatchTarget& target, const Stream& stream);

}  // namespace terngrad::cuda
