// Input: an augmentation choice, then CIFAR-10 records.
#include "datasets/sets/cifar10.h"

#include <cmath>
#include <vector>

#include "datasets/transforms/augmentation.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace terngrad;
  std::span input(data, size);
  const std::uint8_t choice = fuzz::take_choice(input);
  const std::size_t records = input.size() / kCifar10RecordBytes;
  fuzz::survive<DataError>([&] {
    check_cifar10_records("input", input, static_cast<std::int64_t>(records));
    const int crop = 1 + choice % kCifar10ImageSize;
    std::vector<float> image(3 * static_cast<std::size_t>(crop * crop));
    for (std::size_t i = 0; i < records; ++i) {
      const auto pixels = input.subspan(i * kCifar10RecordBytes + 1, kCifar10RecordBytes - 1);
      const Augmentation augmentation =
          draw_augmentation({.seed = choice, .epoch = 0}, static_cast<std::int64_t>(i), kCifar10ImageSize - crop);
      standardize_crop(pixels, kCifar10ImageSize, augmentation, crop, image);
      for (const float value : image) fuzz::require(std::isfinite(value));
    }
  });
  return 0;
}
