#include "datasets/sets/grey_images.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "datasets/transforms/centred_range.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

void check_image_size(const std::string& name, int image_size) {
  TERNGRAD_REQUIRE(image_size >= 0 && image_size <= kMaxImageSize, "[", name,
                   "] image_size must be 0 (the set's own) or 1 to ", kMaxImageSize, ", got ", image_size);
}

GreyImages::GreyImages(std::string name, GreyPixels grey, int num_classes, int image_size)
    : name_(std::move(name)),
      grey_(std::move(grey)),
      num_classes_(num_classes),
      height_(image_size > 0 ? image_size : grey_.height),
      width_(image_size > 0 ? image_size : grey_.width) {
  check_image_size(name_, image_size);
  TERNGRAD_REQUIRE(grey_.height > 0 && grey_.width > 0, "[", name_, "] images must not be empty, got ", grey_.height,
                   " x ", grey_.width);
  const std::size_t image_bytes = static_cast<std::size_t>(grey_.height) * static_cast<std::size_t>(grey_.width);
  TERNGRAD_REQUIRE(grey_.pixels.size() == grey_.labels.size() * image_bytes, "[", name_, "] need ",
                   grey_.labels.size() * image_bytes, " pixels for ", grey_.labels.size(), " labels, got ",
                   grey_.pixels.size());
  for (std::size_t x = 0; x < values_.size(); ++x) values_[x] = (static_cast<float>(x) / 255.0f - 0.5f) * 2.0f;
}

void GreyImages::require_index(std::int64_t index) const {
  TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[", name_, "] example index must be in [0, ", num_examples(),
                   "), got ", index);
}

std::int32_t GreyImages::label(std::int64_t index) const {
  require_index(index);
  return grey_.labels[static_cast<std::size_t>(index)];
}

void GreyImages::read(std::int64_t index, const ExampleVisit&, std::span<float> image) const {
  require_index(index);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(image.size()) == image_elements(), "[", name_, "] an image needs ",
                   image_elements(), " values, the buffer holds ", image.size());
  const CentredRange rows(grey_.height, height_);
  const CentredRange columns(grey_.width, width_);
  if (rows.count < height_ || columns.count < width_) std::fill(image.begin(), image.end(), values_[0]);
  const std::uint8_t* source = grey_.pixels.data() + index * grey_.height * grey_.width;
  for (int row = 0; row < rows.count; ++row) {
    const std::uint8_t* from = source + std::ptrdiff_t{rows.source + row} * grey_.width + columns.source;
    float* to = image.data() + std::ptrdiff_t{rows.target + row} * width_ + columns.target;
    for (int column = 0; column < columns.count; ++column) to[column] = values_[from[column]];
  }
}

}  // namespace terngrad
