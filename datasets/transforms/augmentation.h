// Cropping, distorting and standardizing CIFAR-10 images.
#pragma once

#include <cstdint>
#include <span>

#include "datasets/dataset.h"

namespace terngrad {

inline constexpr int kAugmentedChannels = 3;
inline constexpr int kMaxAugmentedSide = 256;
inline constexpr float kMinContrast = 0.2f;
inline constexpr float kMaxContrast = 1.8f;

/// Window, flip and contrast of an augmented image. The default changes nothing.
struct Augmentation {
  int top = 0;   // first row of the window
  int left = 0;  // first column
  bool flip = false;
  float contrast = 1.0f;
};

/// Draws the augmentation of one visit to example `index`: one Philox block, key visit.seed, step = visit.epoch, worker
/// 0, DrawPurpose::kAugmentation, block = index. Its words, each 32 random bits:
///   word 0  window: k = word * offsets^2 / 2^32 with offsets = max_offset + 1; top = k / offsets, left = k mod offsets
///   word 1  flip: bit 31
///   word 2  brightness: not used, see standardize_crop
///   word 3  contrast: kMinContrast + (kMaxContrast - kMinContrast) * (word / 2^8) / 2^24
/// @param max_offset  maximum offset of the window on each axis, 0 to kMaxAugmentedSide
/// @throws InvalidArgument for another max_offset, an index not in [0, 2^48) or an epoch of more than 40 bits
Augmentation draw_augmentation(const ExampleVisit& visit, std::int64_t index, int max_offset);

/// Crops a square window of a square RGB image, distorts it by Krizhevsky's recipe for CIFAR-10 nets, which TernGrad
/// follows, and standardizes it. With x = p / 255 and each mean over the window:
///   flip      mirrors left and right
///   contrast  y = (x - mean of x over its channel) * contrast + mean of x over its channel
///   result    (y - mean) / max(deviation, 1 / sqrt(n)), mean and population deviation over all n = 3 size^2 values y
///
/// The recipe's random brightness, added to x before the contrast, is omitted: without clamping it shifts y and its
/// mean equally and does not change the result.
///
/// Means and deviations come from exact integer sums of p and p^2; the rest is correctly rounded IEEE arithmetic in a
/// fixed order: equal calls give equal bits on every machine.
/// @param planar  [3, source_size, source_size]: red, green, blue
/// @param image   [size, size, 3] out
/// @throws InvalidArgument unless 1 <= size <= source_size <= kMaxAugmentedSide, the window lies inside the image,
/// contrast is in [kMinContrast, kMaxContrast] and the buffers have these sizes
void standardize_crop(std::span<const std::uint8_t> planar, int source_size, const Augmentation& augmentation, int size,
                      std::span<float> image);

}  // namespace terngrad
