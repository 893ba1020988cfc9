// GreyImages: a set of 8-bit grey images in memory, preprocessed like MNIST.
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

/// Maximum image_size of sets with scalable images.
inline constexpr int kMaxImageSize = 1024;

/// Call before reading files. @throws InvalidArgument, naming the set, unless image_size is 0 to kMaxImageSize
void check_image_size(const std::string& name, int image_size);

/// Converts pixel x (0..255) to (x / 255 - 0.5) * 2, in [-1, 1], after cropping or padding (x = 0) height and width
/// about the centre to `image_size`, with floor(difference / 2) at the top and left, like TensorFlow's
/// resize_image_with_crop_or_pad. No augmentation: training and test images are read alike.
class GreyImages final : public Dataset {
 public:
  /// @param image_size  height and width of read()'s output, 1 to kMaxImageSize; 0 = the images' own
  /// @throws InvalidArgument for another image_size, or arrays with inconsistent sizes
  GreyImages(std::string name, GreyPixels grey, int num_classes, int image_size);

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(grey_.labels.size()); }
  int height() const override { return height_; }
  int width() const override { return width_; }
  int channels() const override { return 1; }
  int num_classes() const override { return num_classes_; }

  /// @throws InvalidArgument if index is not in [0, num_examples())
  std::int32_t label(std::int64_t index) const override;
  /// @throws InvalidArgument if index is not in [0, num_examples()) or image does not have image_elements() values
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
