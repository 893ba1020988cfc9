// A JPEG file.
#include "datasets/formats/jpeg_image.h"

#include "tests/fuzz/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  terngrad::fuzz::decode_image({data, size}, terngrad::read_jpeg_header, terngrad::decode_jpeg);
  return 0;
}
