#include "datasets/transforms/stored_image.h"

#include <cstddef>

#include "datasets/formats/image_file.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

ImageHeader read_stored_header(const StoredImage& image) {
  if (!image.is_raw) return read_image_header(image.name, image.bytes);
  const auto is_side = [](int side) { return side >= 1 && side <= kMaxImageSide; };
  if (!is_side(image.height) || !is_side(image.width) || std::int64_t{image.height} * image.width > kMaxImagePixels) {
    TERNGRAD_THROW(DataError, "'", image.name, "': expected a raw image with sides of 1 to ", kMaxImageSide,
                   " and up to ", kMaxImagePixels, " pixels, found ", image.height, " x ", image.width);
  }
  if (image.bytes.size() !=
      std::size_t{3} * static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width)) {
    TERNGRAD_THROW(DataError, "'", image.name, "': expected ", image.height, " x ", image.width, " x 3 bytes, found ",
                   image.bytes.size());
  }
  return {.height = image.height, .width = image.width, .is_grey = false};
}

ImagePart read_stored_part(const StoredImage& image, const ImageBox& box, DecodedImage& buffer) {
  if (image.is_raw) {
    return {.pixels = image.bytes.data(), .row_bytes = std::ptrdiff_t{3} * image.width, .channels = 3};
  }
  decode_image_box(image.name, image.bytes, box, buffer);
  return {.pixels = buffer.pixels.data(),
          .row_bytes = std::ptrdiff_t{3} * box.width,
          .channels = 3,
          .top = box.top,
          .left = box.left};
}

}  // namespace terngrad
