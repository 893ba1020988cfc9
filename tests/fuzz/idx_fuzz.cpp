// Input: choice 0: an IDX image file; 1: a label file with 10 classes.
#include "datasets/formats/idx.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span input(data, size);
  const std::uint8_t choice = fuzz::take_choice(input);
  fuzz::survive<DataError>([&] {
    if (choice % 2 == 0) {
      const IdxImages images = parse_idx_images("input", input);
      const auto pixels = images.count * images.height * images.width;
      fuzz::require(images.count > 0 && static_cast<std::int64_t>(images.pixels.size()) == pixels);
    } else {
      for (const std::uint8_t label : parse_idx_labels("input", input, 10)) fuzz::require(label < 10);
    }
  });
  return 0;
}
