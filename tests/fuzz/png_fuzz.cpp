// A PNG file.
#include "datasets/png_image.h"

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  fuzz::survive<DataError>([&] {
    const std::span input(data, size);
    const ImageHeader header = read_png_header("input", input);
    // A few bytes may honestly stand for millions of pixels; they would only make this slow.
    if (std::int64_t{header.height} * header.width > 1 << 18) return;
    const int channels = header.is_grey ? 1 : 3;
    const DecodedImage image = decode_png("input", input, channels);
    fuzz::require(image.height == header.height && image.width == header.width && image.channels == channels);
    const auto values = static_cast<std::size_t>(image.height * image.width * channels);
    fuzz::require(image.pixels.size() == values);
  });
  return 0;
}
