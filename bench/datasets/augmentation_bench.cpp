// What a CIFAR-10 training image costs once its file is in memory: draws, crop, flip, contrast, standardization.
#include "datasets/transforms/augmentation.h"

#include "bench/harness.h"
#include "bench/subjects.h"
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
  /// Whether an image has mean 0 and deviation 1.
  bool is_standardized(std::size_t i) const {
    double sum = 0, squares = 0;
    for (const float value : std::span(images).subspan(i * kImageValues, kImageValues)) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    return std::fabs(sum) < 1e-2 && std::fabs(squares / static_cast<double>(kImageValues) - 1) < 1e-4;
  }
};

Subject augment(int num_threads) {
  auto state = std::make_shared<Images>();
  Subject subject;
  subject.elements = static_cast<double>(kExamples) * static_cast<double>(kImageValues);
  subject.bytes = 4 * subject.elements + static_cast<double>(state->pixels.size());
  subject.examples = static_cast<double>(kExamples);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] {
      parallel_for(num_threads, kExamples, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) state->read(static_cast<std::size_t>(i));
      });
    };
  };
  subject.check = [=] {
    for (std::size_t i = 0; i < std::size_t{kExamples}; ++i) {
      if (!state->is_standardized(i)) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_augmentation() {
  for (const int threads : thread_counts()) {
    register_subject(bench_name("augment_cifar10", "u8", kExamples, threads),
                     kExamples * static_cast<std::int64_t>(kImageValues), threads, [=] { return augment(threads); });
  }
}

}  // namespace terngrad::bench
