// What the fuzz targets of image decoders share.
#pragma once

#include "datasets/formats/decoded_image.h"
#include "tests/fuzz/fuzz_input.h"

#include <cstdint>
#include <span>

namespace terngrad::fuzz {

/// Reads a header and decodes what it announces, if that is small: the image must be as the header says.
template <class ReadHeader, class Decode>
void decode_image(std::span<const std::uint8_t> input, const ReadHeader& read_header, const Decode& decode) {
  survive<DataError>([&] {
    const ImageHeader header = read_header("input", input);
    // A few bytes may honestly stand for millions of pixels; they would only make this slow.
    if (std::int64_t{header.height} * header.width > 1 << 18) return;
    const int channels = header.is_grey ? 1 : 3;
    const DecodedImage image = decode("input", input, channels);
    require(image.height == header.height && image.width == header.width && image.channels == channels);
    require(image.pixels.size() == static_cast<std::size_t>(image.height * image.width * channels));
  });
}

}  // namespace terngrad::fuzz
