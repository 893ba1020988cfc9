// The cost of a CIFAR-10 training image once its file is in memory: draws, crop, flip, contrast, standardization.
#include "datasets/transforms/augmentation.h"

#include "bench/rows.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/parallel.h"

#include <array>
#include <cmath>
#include <memory>
#include <vector>

namespace terngrad::bench {
namespace {

constexpr int kSide = 32;
constexpr int kCrop = 24;
constexpr std::size_t kSourceBytes = std::size_t{3} * kSide * kSide;
constexpr std::size_t kImageValues = std::size_t{3} * kCrop * kCrop;
constexpr std::int64_t kExamples = 4096;  // 12 MB of pixels, 28 MB of images

struct Images {
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(kExamples * kSourceBytes);
  std::vector<float> images = std::vector<float>(kExamples * kImageValues);

  Images() {
    const DrawKey key{.seed = 1, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(draw16(key, i) >> 8);
  }
  void read(std::size_t i) {
    const Augmentation augmentation =
        draw_augmentation({.seed = 1, .epoch = 2}, static_cast<std::int64_t>(i), kSide - kCrop);
    standardize_crop(std::span(pixels).subspan(i * kSourceBytes, kSourceBytes), kSide, augmentation, kCrop,
                     std::span(images).subspan(i * kImageValues, kImageValues));
  }
  /// True if an image has mean 0 and deviation 1.
  bool is_standardized(std::size_t i) const {
    double sum = 0, squares = 0;
    for (const float value : std::span(images).subspan(i * kImageValues, kImageValues)) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    return std::fabs(sum) < 1e-2 && std::fabs(squares / static_cast<double>(kImageValues) - 1) < 1e-4;
  }
};

Work augment(Stream& stream) {
  const auto images = std::make_shared<Images>();
  const auto run = [=, &stream] {
    parallel_for(stream.num_threads(), kExamples, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) images->read(static_cast<std::size_t>(i));
    });
  };
  const auto check = [=] {
    for (std::size_t i = 0; i < std::size_t{kExamples}; ++i) {
      if (!images->is_standardized(i)) return false;
    }
    return true;
  };
  return {run, check};
}

const Registration registration(__FILE__, [](Rows& rows) {
  constexpr std::int64_t kValues = kExamples * static_cast<std::int64_t>(kImageValues);
  const auto make = [] {
    return Subject{.bytes = static_cast<double>(4 * kValues + kExamples * static_cast<std::int64_t>(kSourceBytes)),
                   .elements = static_cast<double>(kValues),
                   .examples = static_cast<double>(kExamples),
                   .prepare = augment};
  };
  for (const int threads : thread_counts()) {
    rows.cpu.push_back({cpu_row_name("augment_cifar10", "u8", kExamples, threads), kValues, threads, make});
  }
});

}  // namespace
}  // namespace terngrad::bench
