// GreyImages: a set of 8-bit grey images held in memory, preprocessed the way MNIST is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// Raw images and labels.
struct GreyPixels {
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> pixels;  // [labels.size(), height, width]
  std::vector<std::uint8_t> labels;
};

/// Largest height and width that sets of any size can be asked for.
inline constexpr int kMaxImageSize = 1024;

/// @throws InvalidArgument, naming the set, unless image_size is 0 or 1 to kMaxImageSize. For refusing before files are
/// read.
void check_image_size(const std::string& name, int image_size);

/// Reads pixel x (0..255) as (x / 255 - 0.5) * 2, in [-1, 1], after a centre crop or pad of height and width to
/// `image_size`: floor of half the difference is cut off, or padded with x = 0, at the top and left, as TensorFlow's
/// resize_image_with_crop_or_pad does. Nothing is drawn: training and test subsets are read alike.
class GreyImages final : public Dataset {
 public:
  /// @param image_size  height and width that read() writes, 1 to kMaxImageSize; 0 = the images' own
  /// @throws InvalidArgument for another image_size, or arrays whose sizes disagree
  GreyImages(std::string name, GreyPixels grey, int num_classes, int image_size);

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(grey_.labels.size()); }
  int height() const override { return height_; }
  int width() const override { return width_; }
  int channels() const override { return 1; }
  int num_classes() const override { return num_classes_; }

  /// @throws InvalidArgument if index is not in [0, num_examples())
  std::int32_t label(std::int64_t index) const override;
  /// @throws InvalidArgument if index is not in [0, num_examples()) or image has not image_elements() values
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override;
  bool is_augmented() const override { return false; }

 private:
  void require_index(std::int64_t index) const;

  std::string name_;
  GreyPixels grey_;
  int num_classes_;
  int height_;
  int width_;
  std::array<float, 256> values_;  // preprocessed value of each pixel value
};

}  // namespace terngrad
