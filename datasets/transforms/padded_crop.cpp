#include "datasets/transforms/padded_crop.h"

#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {

ByteTables make_byte_tables(const std::array<double, kAugmentedChannels>& means,
                            const std::array<double, kAugmentedChannels>& deviations) {
  ByteTables tables{};
  for (std::size_t c = 0; c < tables.size(); ++c) {
    TERNGRAD_REQUIRE(deviations[c] > 0, "[make_byte_tables] deviations must be above 0, got ", deviations[c]);
    for (std::size_t p = 0; p < tables[c].size(); ++p) {
      tables[c][p] = static_cast<float>((static_cast<double>(p) / 255 - means[c]) / deviations[c]);
    }
  }
  return tables;
}

void padded_crop(std::span<const std::uint8_t> planar, int source_size, int border, const Augmentation& augmentation,
                 const ByteTables& tables, int size, std::span<float> image) {
  const auto values = [](int side) {
    return kAugmentedChannels * static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  };
  const int max_offset = source_size + 2 * border - size;
  TERNGRAD_REQUIRE(border >= 0 && size >= 1 && augmentation.top >= 0 && augmentation.left >= 0 &&
                       augmentation.top <= max_offset && augmentation.left <= max_offset,
                   "[padded_crop] the window must lie inside the image with its border: offsets 0 to ", max_offset,
                   ", got ", augmentation.top, ", ", augmentation.left);
  TERNGRAD_REQUIRE(augmentation.contrast == 1.0f, "[padded_crop] the contrast must be 1, got ", augmentation.contrast);
  TERNGRAD_REQUIRE(planar.size() == values(source_size), "[padded_crop] planar must hold ", values(source_size),
                   " bytes, holds ", planar.size());
  TERNGRAD_REQUIRE(image.size() == values(size), "[padded_crop] image must hold ", values(size), " values, holds ",
                   image.size());
  const auto plane = static_cast<std::size_t>(source_size) * static_cast<std::size_t>(source_size);
  const auto is_inside = [&](int place) { return place >= 0 && place < source_size; };
  float* out = image.data();
  for (int y = 0; y < size; ++y) {
    const int row = y + augmentation.top - border;
    for (int x = 0; x < size; ++x) {
      const int column = (augmentation.flip ? size - 1 - x : x) + augmentation.left - border;
      const bool is_pixel = is_inside(row) && is_inside(column);
      const std::size_t pixel = is_pixel ? static_cast<std::size_t>(row) * static_cast<std::size_t>(source_size) +
                                               static_cast<std::size_t>(column)
                                         : 0;
      for (std::size_t c = 0; c < kAugmentedChannels; ++c) {
        *out++ = tables[c][is_pixel ? planar[c * plane + pixel] : std::size_t{0}];
      }
    }
  }
}

}  // namespace terngrad
