// Crops of images with a border, normalized by the data set's means and deviations: the training of residual nets for
// CIFAR-10.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "datasets/transforms/augmentation.h"

namespace terngrad {

/// Table of (p / 255 - mean) / deviation for each byte p and channel, computed in double and rounded once.
using ByteTables = std::array<std::array<float, 256>, kAugmentedChannels>;

/// @param means, deviations  per channel, of p / 255 over a data set; deviations above 0
ByteTables make_byte_tables(const std::array<double, kAugmentedChannels>& means,
                            const std::array<double, kAugmentedChannels>& deviations);

/// out[y, x, c] = tables[c][p] with p the byte of the image at row y + top - border and column x + left - border (x
/// from the right if flipped), or p = 0 (black) outside the image. He et al., "Deep Residual Learning for Image
/// Recognition", CVPR 2016, section 4.2: a border of 4 around 32 x 32, so crops of 32 have offsets 0 to 8. Equal calls
/// give equal bits on every machine.
/// @param planar        [3, source_size, source_size]: red, green, blue
/// @param augmentation  offsets refer to the image with its border; contrast must be 1
/// @param image         [size, size, 3] out
/// @throws InvalidArgument unless the window lies inside the image with its border and the buffers have these sizes
void padded_crop(std::span<const std::uint8_t> planar, int source_size, int border, const Augmentation& augmentation,
                 const ByteTables& tables, int size, std::span<float> image);

}  // namespace terngrad
