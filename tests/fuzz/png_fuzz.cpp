// Input: a PNG file.
#include "datasets/formats/png_image.h"

#include "tests/fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  terngrad::fuzz::decode_image({data, size}, terngrad::read_png_header, terngrad::decode_png);
  return 0;
}
