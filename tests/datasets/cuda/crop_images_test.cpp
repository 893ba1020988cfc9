// Crops on a GPU against standardize_crop, bit for bit.
#include "datasets/cuda/crop_images.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/datasets/stored_images.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"

namespace terngrad::cuda_crop_images_test {
namespace {

using testing::bits_of;
using testing::random_images;
using testing::to_device;
using testing::to_host;

struct Window {
  int source_size;
  int size;
};

class CudaCropImages : public testing::CudaTest, public ::testing::WithParamInterface<Window> {
 protected:
  static constexpr int kExamples = 5;
  static constexpr std::uint64_t kSeed = 0x1234567890abcdef;

  /// Compares a batch of visits to `planar` with the CPU.
  void compare(const std::vector<std::uint8_t>& planar, bool is_augmented, const std::vector<std::uint64_t>& epochs) {
    const auto [source_size, size] = GetParam();
    Stream stream(Device::cuda());
    std::vector<cuda::BatchEntry> entries(2 * epochs.size());  // the first half is not read
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      entries[epochs.size() + i] = {.epoch = epochs[i],
                                    .index = static_cast<std::uint32_t>(3 * i % kExamples),
                                    .label = static_cast<std::int32_t>(100 + i)};
    }
    const auto image_values = static_cast<std::size_t>(kAugmentedChannels * size * size);
    const Buffer<std::uint8_t> stored = to_device<std::uint8_t>(planar, stream);
    const Buffer<cuda::BatchEntry> ring = to_device<cuda::BatchEntry>(entries, stream);
    Buffer<float> images(static_cast<std::int64_t>(epochs.size() * image_values), stream.device());
    Buffer<std::int32_t> labels(static_cast<std::int64_t>(epochs.size()), stream.device());
    cuda::crop_images({.planar = stored.data(),
                       .source_size = source_size,
                       .size = size,
                       .is_augmented = is_augmented,
                       .seed = kSeed,
                       .entries = ring.data()},
                      {.num_slots = 2, .batch = static_cast<std::int64_t>(epochs.size()), .step = {.step = 7}},
                      {.images = images.data(), .labels = labels.data()}, stream);
    const std::vector<float> found = to_host<float>(images.span(), stream);
    const std::vector<std::int32_t> found_labels = to_host<std::int32_t>(labels.span(), stream);

    const std::size_t bytes = planar.size() / kExamples;
    const int max_offset = source_size - size;
    std::vector<float> expected(image_values);
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      const cuda::BatchEntry& entry = entries[epochs.size() + i];
      const Augmentation augmentation =
          is_augmented ? draw_augmentation({.seed = kSeed, .epoch = entry.epoch}, entry.index, max_offset)
                       : Augmentation{.top = max_offset / 2, .left = max_offset / 2};
      standardize_crop(std::span(planar).subspan(entry.index * bytes, bytes), source_size, augmentation, size,
                       expected);
      ASSERT_EQ(bits_of(std::span(found).subspan(i * image_values, image_values)), bits_of(expected)) << i;
      ASSERT_EQ(found_labels[i], entry.label);
    }
  }
};

TEST_P(CudaCropImages, HaveTheCpusBits) {
  const std::vector<std::uint8_t> planar = random_images(kExamples, GetParam().source_size);
  compare(planar, true, {0, 1, 2, 3, 4, (std::uint64_t{1} << 40) - 1, std::uint64_t{1} << 32});
  compare(planar, false, {0, 1, 2});
}

/// The largest sums, and the smallest deviation.
TEST_P(CudaCropImages, HaveTheCpusBitsForExtremes) {
  std::vector<std::uint8_t> planar(random_images(kExamples, GetParam().source_size).size(), 255);
  compare(planar, true, {0, 1});
  for (std::size_t i = 0; i < planar.size(); i += 101) planar[i] = 254;
  compare(planar, true, {0, 1, 2});
}

// Images that fit a block's shared memory (up to 128) and larger ones; rows with and without complete vectors; windows
// from one pixel to the maximum.
INSTANTIATE_TEST_SUITE_P(Sizes, CudaCropImages,
                         ::testing::Values(Window{1, 1}, Window{2, 1}, Window{4, 3}, Window{5, 2}, Window{32, 24},
                                           Window{32, 32}, Window{32, 23}, Window{33, 8}, Window{33, 7},
                                           Window{128, 97}, Window{129, 64}, Window{132, 11}, Window{256, 256}),
                         [](const auto& test) {
                           return std::to_string(test.param.size) + "Of" + std::to_string(test.param.source_size);
                         });

}  // namespace
}  // namespace terngrad::cuda_crop_images_test
