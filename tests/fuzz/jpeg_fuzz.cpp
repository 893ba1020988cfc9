// Input: a JPEG file. If the whole image decodes, so does each box, to the same pixels.
#include "datasets/formats/jpeg_image.h"

#include <algorithm>

#include "tests/fuzz/image_fuzz.h"

namespace {

using namespace terngrad;

/// Box inside the image, chosen by the last bytes of the input.
ImageBox some_box(std::span<const std::uint8_t> input, const ImageHeader& header) {
  const auto below = [&](std::size_t i, int count) { return input[input.size() - 1 - i] * count / 256; };
  ImageBox box{.top = below(0, header.height), .left = below(1, header.width)};
  box.height = 1 + below(2, header.height - box.top);
  box.width = 1 + below(3, header.width - box.left);
  return box;
}

bool is_part_of(const DecodedImage& part, const ImageBox& box, const DecodedImage& whole) {
  for (int row = 0; row < box.height; ++row) {
    const auto expected = whole.pixels.begin() + (std::ptrdiff_t{box.top + row} * whole.width + box.left) * 3;
    const auto found = part.pixels.begin() + std::ptrdiff_t{row} * box.width * 3;
    if (!std::equal(found, found + std::ptrdiff_t{box.width} * 3, expected)) return false;
  }
  return true;
}

void decode_part(std::span<const std::uint8_t> input) {
  const ImageHeader header = read_jpeg_header("input", input);
  if (std::int64_t{header.height} * header.width > 1 << 18) return;
  const ImageBox box = some_box(input, header);
  DecodedImage part;
  bool has_part = false;
  fuzz::survive<DataError>([&] {
    decode_jpeg_box("input", input, box, part);
    has_part = true;
  });
  // Damage below the box is found only by decoding the whole image.
  const DecodedImage whole = decode_jpeg("input", input, 3);
  fuzz::require(has_part && part.height == box.height && part.width == box.width && is_part_of(part, box, whole));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> input(data, size);
  fuzz::decode_image(input, read_jpeg_header, decode_jpeg);
  fuzz::survive<DataError>([&] { decode_part(input); });
  return 0;
}
