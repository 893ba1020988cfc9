// Batches of CIFAR-10 training images out of stored ones: draws, crop, flip, contrast, standardization.
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "datasets/cuda/crop_images.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr int kSide = 32;
constexpr int kCrop = 24;
constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kSourceBytes = std::int64_t{kAugmentedChannels} * kSide * kSide;
constexpr std::int64_t kImageValues = std::int64_t{kAugmentedChannels} * kCrop * kCrop;

/// As many stored images as a batch takes, each once, in another order.
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

/// Whether the images are those of the CPU, bit by bit.
bool has_cpus_bits(std::int64_t n, const std::vector<float>& images) {
  const std::vector<std::uint8_t> pixels = make_pixels(n);
  std::vector<float> expected(static_cast<std::size_t>(kImageValues));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = n - 1 - i;
    standardize_crop(
        std::span(pixels).subspan(static_cast<std::size_t>(index * kSourceBytes), std::size_t{kSourceBytes}), kSide,
        draw_augmentation({.seed = kSeed, .epoch = 2}, index, kSide - kCrop), kCrop, expected);
    const float* found = images.data() + i * kImageValues;
    if (std::memcmp(found, expected.data(), expected.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

CudaSubject crop(std::int64_t n) {
  const auto batches = std::make_shared<std::vector<Batch>>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n * kImageValues);
  // Whole stored images and entries are read, images and labels written.
  subject.bytes = static_cast<double>(n * (kSourceBytes + 16 + 4 * kImageValues + 4));
  subject.prepare = [=](Stream& stream, int num_sets) {
    const std::vector<std::uint8_t> pixels = make_pixels(n);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      const Device& device = stream.device();
      Batch& batch = batches->emplace_back(
          Batch{Buffer<std::uint8_t>(n * kSourceBytes, device), Buffer<cuda::BatchEntry>(n, device),
                Buffer<float>(n * kImageValues, device), Buffer<std::int32_t>(n, device)});
      copy<std::uint8_t>(pixels, batch.planar.span(), stream);
      copy<cuda::BatchEntry>(make_entries(n), batch.entries.span(), stream);
      const cuda::CropTask task{.planar = batch.planar.data(),
                                .source_size = kSide,
                                .size = kCrop,
                                .is_augmented = true,
                                .seed = kSeed,
                                .entries = batch.entries.data()};
      const cuda::BatchTarget target{.images = batch.images.data(), .labels = batch.labels.data()};
      works.emplace_back(
          [=, &stream] { cuda::crop_images(task, {.num_slots = 1, .batch = n, .step = {}}, target, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<float> images(static_cast<std::size_t>(n * kImageValues));
    copy<float>(batches->back().images.span(), std::span(images), stream);
    stream.synchronize();
    return has_cpus_bits(n, images);
  };
  return subject;
}

}  // namespace

void register_cuda_crop() {
  const double set_bytes = static_cast<double>(kSourceBytes + 4 * kImageValues);
  // Batches of a worker, of a node's workers, and of more, which shows the speed of memory. None has the target of sets
  // in the cache: a small batch takes as long as the steps of one block, which wait for each other.
  for (const std::int64_t n : {128, 1024, 16384}) {
    register_cuda_subject(cuda_bench_name("crop_cifar10", "u8", n), static_cast<double>(n) * set_bytes,
                          Residency::kMemory, [n] { return crop(n); });
  }
}

}  // namespace terngrad::bench
