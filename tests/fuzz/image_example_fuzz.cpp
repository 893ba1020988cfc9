// Input: a tf.train.Example. Accepted examples survive a round trip.
#include <string>

#include "datasets/formats/image_example.h"
#include "kernels/runtime/errors.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  fuzz::survive<DataError>([&] {
    ImageExample example = parse_image_example({data, size});
    if (!example.is_raw) example.encoded.insert(0, "\xff\xd8");  // only JPEG and PNG are written
    const std::string bytes = serialize_image_example(example);
    const ImageExample again = parse_image_example({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    fuzz::require(again.encoded == example.encoded && again.label == example.label && again.boxes == example.boxes &&
                  again.is_raw == example.is_raw && again.filename == example.filename);
  });
  return 0;
}
