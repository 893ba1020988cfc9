// Input: a .npy file, which may hold labels.
#include "datasets/formats/npy.h"

#include "datasets/sets/npy_images.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  fuzz::survive<DataError>([&] {
    const NpyArray array = parse_npy("input", std::span(data, size));
    fuzz::require(array.data.size() == static_cast<std::size_t>(array.num_elements) * array.element_bytes);
    for (const std::int32_t label : read_npy_labels("input", array)) {
      fuzz::require(label >= 0 && label < kMaxArrayClasses);
    }
  });
  return 0;
}
