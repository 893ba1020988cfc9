// Copies preprocessed images to a step's batch on a GPU.
#pragma once

#include <cstdint>

#include "datasets/cuda/slot_ring.h"
#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Writes the batch of the ring's step: the examples that its entries list.
/// @param examples  [examples, image_elements] in device memory, aligned to 16 bytes
/// @param entries   [num_slots, batch]
void gather_images(const float* examples, std::int64_t image_elements, const BatchEntry* entries, const SlotRing& ring,
                   const BatchTarget& target, const Stream& stream);

/// Writes the batch of the ring's step from its slot.
/// @param slot_values  distance of slots in floats, a multiple of 4; target.images must have room for as many
/// @param images       [num_slots, slot_values], aligned to 16 bytes
/// @param labels       [num_slots, batch]
void copy_slot(const float* images, std::int64_t slot_values, const std::int32_t* labels, const SlotRing& ring,
               const BatchTarget& target, const Stream& stream);

}  // namespace terngrad::cuda
