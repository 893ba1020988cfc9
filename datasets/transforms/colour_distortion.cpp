#include "datasets/transforms/colour_distortion.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "datasets/transforms/cpu/hue_saturation.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::size_t kSumLanes = 24;  // eight pixels, so that the loop vectorizes
constexpr std::size_t kSummedAsFloat = 64 * kSumLanes;

/// Mean of each channel: lane i adds values i, i + kSumLanes, ...: 64 of them in float, these partial sums in double.
std::array<float, 3> channel_means(std::span<const float> image) {
  std::array<double, kSumLanes> sums{};
  for (std::size_t first = 0; first < image.size(); first += kSummedAsFloat) {
    const std::span<const float> values = image.subspan(first, std::min(kSummedAsFloat, image.size() - first));
    std::array<float, kSumLanes> part{};
    std::size_t at = 0;
    for (; at + kSumLanes <= values.size(); at += kSumLanes) {
      for (std::size_t lane = 0; lane < kSumLanes; ++lane) part[lane] += values[at + lane];
    }
    for (std::size_t lane = 0; at + lane < values.size(); ++lane) part[lane] += values[at + lane];
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) sums[lane] += static_cast<double>(part[lane]);
  }
  std::array<float, 3> means{};
  const std::size_t num_pixels = image.size() / 3;
  for (std::size_t c = 0; c < means.size(); ++c) {
    double sum = 0;
    for (std::size_t lane = c; lane < kSumLanes; lane += means.size()) sum += sums[lane];
    means[c] = static_cast<float>(sum / static_cast<double>(num_pixels));
  }
  return means;
}

void adjust_contrast(std::span<float> image, float contrast) {
  const std::array<float, 3> means = channel_means(image);
  for (std::size_t i = 0; i < image.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) image[i + c] = (image[i + c] - means[c]) * contrast + means[c];
  }
}

}  // namespace

ColourDistortion draw_colour_distortion(const ImageDraws& draws) {
  const auto first = draws.block(0), second = draws.block(1);
  const auto both_ways = [](std::uint32_t word) { return 2 * uniform_of(word) - 1; };
  return {.is_contrast_last = (first[0] >> 30 & 1) == 0,
          .brightness = both_ways(first[2]) * kMaxBrightness,
          .saturation = kMinColourFactor + uniform_of(first[3]),
          .hue = both_ways(second[0]) * kMaxHue,
          .contrast = kMinColourFactor + uniform_of(second[1])};
}

void distort_colours(const ColourDistortion& distortion, std::span<float> image) {
  TERNGRAD_REQUIRE(!image.empty() && image.size() % 3 == 0,
                   "[distort_colours] image must hold pixels of 3 values, holds ", image.size());
  TERNGRAD_REQUIRE(distortion.hue >= -1 && distortion.hue <= 1, "[distort_colours] hue must be in [-1, 1], got ",
                   distortion.hue);
  for (float& value : image) value += distortion.brightness;
  if (!distortion.is_contrast_last) adjust_contrast(image, distortion.contrast);
  cpu::adjust_hue_saturation(image, distortion.saturation, distortion.hue);
  if (distortion.is_contrast_last) adjust_contrast(image, distortion.contrast);
}

}  // namespace terngrad
