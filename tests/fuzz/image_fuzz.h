// Shared by the fuzz targets of image decoders.
#pragma once

#include "datasets/formats/decoded_image.h"
#include "tests/fuzz/fuzz_input.h"

#include <cstdint>
#include <span>

namespace terngrad::fuzz {

/// Reads a header and decodes the image if it is small: its shape must match the header.
template <class ReadHeader, class Decode>
void decode_image(std::span<const std::uint8_t> input, const ReadHeader& read_header, const Decode& decode) {
  survive<DataError>([&] {
    const ImageHeader header = read_header("input", input);
    // A few bytes may encode millions of pixels, which would only be slow.
    if (std::int64_t{header.height} * header.width > 1 << 18) return;
    const int channels = header.is_grey ? 1 : 3;
    const DecodedImage image = decode("input", input, channels);
    require(image.height == header.height && image.width == header.width && image.channels == channels);
    require(image.pixels.size() == static_cast<std::size_t>(image.height * image.width * channels));
  });
}

}  // namespace terngrad::fuzz
