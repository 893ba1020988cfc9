// Batches of CIFAR-10 training images out of stored ones: draws, crop, flip, contrast, standardization.
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/device_memory.h"
#include "bench/rows.h"
#include "datasets/cuda/crop_images.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/random/philox.h"

namespace terngrad::bench {
namespace {

constexpr int kSide = 32;
constexpr int kCrop = 24;
constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kSourceBytes = std::int64_t{kAugmentedChannels} * kSide * kSide;
constexpr std::int64_t kImageValues = std::int64_t{kAugmentedChannels} * kCrop * kCrop;

/// Stored images of a batch, each once, in another order.
struct Batch {
  Buffer<std::uint8_t> planar;
  Buffer<cuda::BatchEntry> entries;
  Buffer<float> images;
  Buffer<std::int32_t> labels;
};

std::vector<std::uint8_t> make_pixels(std::int64_t n) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(n * kSourceBytes));
  const DrawKey key{.seed = kSeed, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  for (std::size_t i = 0; i < pixels.size(); i += 16) {
    const auto words = draw_block(key, i / 16);
    std::memcpy(pixels.data() + i, words.data(), 16);
  }
  return pixels;
}

std::vector<cuda::BatchEntry> make_entries(std::int64_t n) {
  std::vector<cuda::BatchEntry> entries(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {.epoch = 2,
                  .index = static_cast<std::uint32_t>(entries.size() - 1 - i),
                  .label = static_cast<std::int32_t>(i % 10)};
  }
  return entries;
}

/// True if the images are those of the CPU, bit by bit.
bool has_cpus_bits(std::int64_t n, std::span<const std::uint8_t> pixels, const std::vector<float>& images) {
  std::vector<float> expected(static_cast<std::size_t>(kImageValues));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = n - 1 - i;
    standardize_crop(pixels.subspan(static_cast<std::size_t>(index * kSourceBytes), std::size_t{kSourceBytes}), kSide,
                     draw_augmentation({.seed = kSeed, .epoch = 2}, index, kSide - kCrop), kCrop, expected);
    const float* found = images.data() + i * kImageValues;
    if (std::memcmp(found, expected.data(), expected.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

Subject crop(std::int64_t n) {
  const auto pixels = std::make_shared<const std::vector<std::uint8_t>>(make_pixels(n));
  const auto prepare = [=](Stream& stream) {
    const std::vector<cuda::BatchEntry> entries = make_entries(n);
    const auto batch = std::make_shared<Batch>(
        Batch{on_device(std::span(*pixels), stream), on_device(std::span(entries), stream),
              Buffer<float>(n * kImageValues, stream.device()), Buffer<std::int32_t>(n, stream.device())});
    const cuda::CropTask task{.planar = batch->planar.data(),
                              .source_size = kSide,
                              .size = kCrop,
                              .is_augmented = true,
                              .seed = kSeed,
                              .entries = batch->entries.data()};
    const cuda::BatchTarget target{.images = batch->images.data(), .labels = batch->labels.data()};
    return Work{
        .run = [=, &stream] { cuda::crop_images(task, {.num_slots = 1, .batch = n, .step = {}}, target, stream); },
        .check = [=, &stream] { return has_cpus_bits(n, *pixels, on_host(batch->images.span(), stream)); }};
  };
  // Whole stored images and entries are read, images and labels written.
  return {.bytes = static_cast<double>(n * (kSourceBytes + 16 + 4 * kImageValues + 4)),
          .elements = static_cast<double>(n * kImageValues),
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  // Batches of a worker, of a node's workers, and of more, which shows the speed of memory. None has the target of sets
  // in the cache: a small batch takes as long as the steps of one block, which wait for each other.
  for (const std::int64_t n : {128, 1024, 16384}) {
    rows.cuda.push_back({cuda_row_name("crop_cifar10", "u8", n), Residency::kMemory, [n] { return crop(n); }});
  }
});

}  // namespace
}  // namespace terngrad::bench
