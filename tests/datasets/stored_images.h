// A set of stored RGB images of any size of which read() takes windows, like CIFAR-10.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/random/philox.h"

namespace terngrad::testing {

/// Images of side `source_size` with random bytes; every fourth one has a single colour (deviation 0).
inline std::vector<std::uint8_t> random_images(std::int64_t count, int source_size) {
  const std::int64_t bytes = std::int64_t{kAugmentedChannels} * source_size * source_size;
  std::vector<std::uint8_t> planar(static_cast<std::size_t>(count * bytes));
  const DrawKey key{.seed = 3, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  for (std::size_t i = 0; i < planar.size(); ++i) planar[i] = static_cast<std::uint8_t>(draw16(key, i) >> 8);
  for (std::int64_t image = 3; image < count; image += 4) {
    const auto begin = planar.begin() + image * bytes;
    std::fill(begin, begin + bytes, static_cast<std::uint8_t>(image));
  }
  return planar;
}

class StoredImages final : public Dataset {
 public:
  StoredImages(std::int64_t num_examples, int source_size, int size, bool is_augmented)
      : source_size_(source_size),
        size_(size),
        is_augmented_(is_augmented),
        planar_(random_images(num_examples, source_size)),
        num_examples_(num_examples) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return num_examples_; }
  int height() const override { return size_; }
  int width() const override { return size_; }
  int channels() const override { return kAugmentedChannels; }
  int num_classes() const override { return 10; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index * 7 % 10); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    const int max_offset = source_size_ - size_;
    const Augmentation augmentation = is_augmented_ ? draw_augmentation(visit, index, max_offset)
                                                    : Augmentation{.top = max_offset / 2, .left = max_offset / 2};
    standardize_crop(planar(index), source_size_, augmentation, size_, image);
  }
  bool is_augmented() const override { return is_augmented_; }
  std::optional<CropSource> crop_source() const override {
    return CropSource{.source_size = source_size_, .is_augmented = is_augmented_, .planar = [this](std::int64_t index) {
                        return planar(index);
                      }};
  }

 private:
  std::span<const std::uint8_t> planar(std::int64_t index) const {
    const std::size_t bytes = planar_.size() / static_cast<std::size_t>(num_examples_);
    return std::span(planar_).subspan(static_cast<std::size_t>(index) * bytes, bytes);
  }

  std::string name_ = "stored";
  int source_size_;
  int size_;
  bool is_augmented_;
  std::vector<std::uint8_t> planar_;
  std::int64_t num_examples_;
};

}  // namespace terngrad::testing
