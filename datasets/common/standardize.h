// Arithmetic of draw_augmentation and standardize_crop, shared by both backends; documented in
// datasets/transforms/augmentation.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "datasets/transforms/augmentation.h"

namespace terngrad::common {

/// The augmentation for a block of draws.
constexpr Augmentation augmentation_of(const std::array<std::uint32_t, 4>& words, int max_offset) {
  const auto offsets = static_cast<std::uint64_t>(max_offset) + 1;
  const std::uint64_t window = words[0] * (offsets * offsets) >> 32;
  return {.top = static_cast<int>(window / offsets),
          .left = static_cast<int>(window % offsets),
          .flip = words[1] >> 31 != 0,
          .contrast = kMinContrast + (kMaxContrast - kMinContrast) * (static_cast<float>(words[3] >> 8) * 0x1p-24f)};
}

/// Sums of p and p^2 over each channel of a window.
struct WindowSums {
  std::uint64_t first[kAugmentedChannels];
  std::uint64_t second[kAugmentedChannels];
};

/// standardize_crop as one affine map per channel: result = (p - centre of its channel) * scale.
struct AffineMap {
  float centre[kAugmentedChannels];
  float scale;
};

// With N = `pixels` in a channel, S and Q its sums of p and p^2, and everything in units of p:
//   mean      M = sum of S / (3 N)
//   variance  contrast^2 * sum of (N Q - S^2) / (3 N^2)  within the channels
//             + (3 * sum of S^2 - (sum of S)^2) / (9 N^2)  between their means
//   y - M     contrast * (p - centre), centre = S / N + (M - S / N) / contrast
// The caller computes square roots, because correctly rounded ones are not constexpr.

/// Variance of the window with `contrast`, in units of p: the formula above.
constexpr double window_variance(const WindowSums& sums, std::uint64_t pixels, double contrast) {
  std::uint64_t within = 0;
  std::uint64_t total = 0;
  std::uint64_t squares = 0;
  for (int channel = 0; channel < kAugmentedChannels; ++channel) {
    const std::uint64_t square = sums.first[channel] * sums.first[channel];
    within += pixels * sums.second[channel] - square;
    total += sums.first[channel];
    squares += square;
  }
  const auto count = static_cast<double>(pixels);
  return contrast * contrast * (static_cast<double>(within) / (3.0 * count * count)) +
         static_cast<double>(3 * squares - total * total) / (9.0 * count * count);
}

/// @param deviation   square root of window_variance
/// @param root_count  square root of 3 N
constexpr AffineMap standardizing_map(const WindowSums& sums, std::uint64_t pixels, double contrast, double deviation,
                                      double root_count) {
  std::uint64_t total = 0;
  for (int channel = 0; channel < kAugmentedChannels; ++channel) total += sums.first[channel];
  const auto count = static_cast<double>(pixels);
  const double mean = static_cast<double>(total) / (3.0 * count);
  const double smallest = 255.0 / root_count;
  AffineMap map{};
  map.scale = static_cast<float>(contrast / std::max(deviation, smallest));
  for (int channel = 0; channel < kAugmentedChannels; ++channel) {
    const double channel_mean = static_cast<double>(sums.first[channel]) / count;
    map.centre[channel] = static_cast<float>(channel_mean + (mean - channel_mean) / contrast);
  }
  return map;
}

}  // namespace terngrad::common
