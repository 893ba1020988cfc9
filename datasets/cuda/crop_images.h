// Crops, distorts and standardizes windows of stored images on a GPU, bit-identical to standardize_crop of
// datasets/transforms/augmentation.h.
#pragma once

#include <cstdint>

#include "datasets/cuda/slot_ring.h"
#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Stored images, window and augmentation of crop_images.
struct CropTask {
  const std::uint8_t* planar = nullptr;  // [examples, 3, source_size, source_size], aligned to 16 bytes
  int source_size = 0;                   // at most kMaxAugmentedSide
  int size = 0;                          // side of the window, at most source_size
  bool is_augmented = false;             // false: the centre window, unchanged
  std::uint64_t seed = 0;                // seed of the draws
  const BatchEntry* entries = nullptr;   // [num_slots, batch]
};

/// Writes the images and labels of the ring's step, with one block per example. The caller has checked sizes.
void crop_images(const CropTask& task, const SlotRing& ring, const BatchTarget& target, const Stream& stream);

}  // namespace terngrad::cuda
