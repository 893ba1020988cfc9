// Windows of stored images, distorted and standardized on a GPU: standardize_crop of
// datasets/transforms/augmentation.h, same bits.
#pragma once

#include <cstdint>

#include "datasets/cuda/slot_ring.h"
#include "kernels/runtime/device.h"

namespace terngrad::cuda {

struct CropTask {
  const std::uint8_t* planar = nullptr;  // [examples, 3, source_size, source_size], aligned to 16 bytes
  int source_size = 0;                   // at most kMaxAugmentedSide
  int size = 0;                          // of the window, at most source_size
  bool is_augmented = false;             // else the middle window as it is
  std::uint64_t seed = 0;                // of the draws
  const BatchEntry* entries = nullptr;   // [num_slots, batch]
};

/// Writes the images and labels of the ring's step: a block per example. Sizes have been checked.
void crop_images(const CropTask& task, const SlotRing& ring, const BatchTarget& target, const Stream& stream);

}  // namespace terngrad::cuda
