#include "datasets/transforms/augmentation.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "datasets/common/standardize.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// The largest word draws a contrast that standardize_crop accepts.
static_assert(kMinContrast + (kMaxContrast - kMinContrast) * (static_cast<float>(0xffffffu) * 0x1p-24f) <=
              kMaxContrast);

/// A window: the first pixel of each channel.
struct Window {
  std::array<const std::uint8_t*, kAugmentedChannels> planes;
  std::ptrdiff_t stride;
  int size;
};

/// Sums of a row fit into 32 bits, sums of any window into 64.
common::WindowSums sum_window(const Window& window) {
  common::WindowSums sums{};
  for (std::size_t channel = 0; channel < window.planes.size(); ++channel) {
    for (int row = 0; row < window.size; ++row) {
      const std::uint8_t* pixels = window.planes[channel] + row * window.stride;
      std::uint32_t first = 0, second = 0;
      for (int column = 0; column < window.size; ++column) {
        const std::uint32_t p = pixels[column];
        first += p;
        second += p * p;
      }
      sums.first[channel] += first;
      sums.second[channel] += second;
    }
  }
  return sums;
}

common::AffineMap standardizing_map(const Window& window, double contrast) {
  const std::uint64_t pixels = static_cast<std::uint64_t>(window.size) * static_cast<std::uint64_t>(window.size);
  const common::WindowSums sums = sum_window(window);
  return common::standardizing_map(sums, pixels, contrast, std::sqrt(common::window_variance(sums, pixels, contrast)),
                                   std::sqrt(3.0 * static_cast<double>(pixels)));
}

/// A template, so that the step through a row is a constant and the loop vectorizes.
template <bool kFlip>
void write_window(const Window& window, const common::AffineMap& map, float* image) {
  const auto [red_centre, green_centre, blue_centre] = map.centre;
  const float scale = map.scale;
  const std::ptrdiff_t size = window.size;
  for (std::ptrdiff_t row = 0; row < size; ++row) {
    const std::uint8_t* red = window.planes[0] + row * window.stride;
    const std::uint8_t* green = window.planes[1] + row * window.stride;
    const std::uint8_t* blue = window.planes[2] + row * window.stride;
    float* out = image + row * size * kAugmentedChannels;
    for (std::ptrdiff_t column = 0; column < size; ++column) {
      const std::ptrdiff_t from = kFlip ? size - 1 - column : column;
      out[3 * column] = (static_cast<float>(red[from]) - red_centre) * scale;
      out[3 * column + 1] = (static_cast<float>(green[from]) - green_centre) * scale;
      out[3 * column + 2] = (static_cast<float>(blue[from]) - blue_centre) * scale;
    }
  }
}

void check_crop(std::size_t planar_bytes, int source_size, const Augmentation& a, int size, std::size_t image_values) {
  TERNGRAD_REQUIRE(size >= 1 && size <= source_size && source_size <= kMaxAugmentedSide,
                   "[standardize_crop] size must be in [1, source_size] and source_size at most ", kMaxAugmentedSide,
                   ", got ", size, " of ", source_size);
  TERNGRAD_REQUIRE(a.top >= 0 && a.left >= 0 && a.top <= source_size - size && a.left <= source_size - size,
                   "[standardize_crop] the window must lie inside the image: offsets up to ", source_size - size,
                   ", got ", a.top, ", ", a.left);
  TERNGRAD_REQUIRE(a.contrast >= kMinContrast && a.contrast <= kMaxContrast, "[standardize_crop] contrast must be in [",
                   kMinContrast, ", ", kMaxContrast, "], got ", a.contrast);
  const auto values = [](int side) {
    return kAugmentedChannels * static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  };
  TERNGRAD_REQUIRE(planar_bytes == values(source_size), "[standardize_crop] planar must hold ", values(source_size),
                   " bytes, holds ", planar_bytes);
  TERNGRAD_REQUIRE(image_values == values(size), "[standardize_crop] image must hold ", values(size), " values, holds ",
                   image_values);
}

}  // namespace

Augmentation draw_augmentation(const ExampleVisit& visit, std::int64_t index, int max_offset) {
  TERNGRAD_REQUIRE(max_offset >= 0 && max_offset <= kMaxAugmentedSide, "[draw_augmentation] max_offset must be in [0, ",
                   kMaxAugmentedSide, "], got ", max_offset);
  TERNGRAD_REQUIRE(index >= 0 && index >> 48 == 0, "[draw_augmentation] index must be in [0, 2^48), got ", index);
  TERNGRAD_REQUIRE(visit.epoch >> 40 == 0, "[draw_augmentation] epoch must be below 2^40, got ", visit.epoch);
  const DrawKey key{.seed = visit.seed, .step = visit.epoch, .worker = 0, .purpose = DrawPurpose::kAugmentation};
  const std::array<std::uint32_t, 4> words = draw_block(key, static_cast<std::uint64_t>(index));
  return common::augmentation_of(words, max_offset);
}

void standardize_crop(std::span<const std::uint8_t> planar, int source_size, const Augmentation& augmentation, int size,
                      std::span<float> image) {
  check_crop(planar.size(), source_size, augmentation, size, image.size());
  Window window{.planes = {}, .stride = source_size, .size = size};
  const std::ptrdiff_t plane = std::ptrdiff_t{source_size} * source_size;
  for (int channel = 0; channel < kAugmentedChannels; ++channel) {
    window.planes[static_cast<std::size_t>(channel)] =
        planar.data() + channel * plane + augmentation.top * window.stride + augmentation.left;
  }
  const common::AffineMap map = standardizing_map(window, static_cast<double>(augmentation.contrast));
  if (augmentation.flip) {
    write_window<true>(window, map, image.data());
  } else {
    write_window<false>(window, map, image.data());
  }
}

}  // namespace terngrad
