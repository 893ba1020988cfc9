// ConstantImages: a data set without files, for benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// Shape of a data set.
struct ImageSetShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  int num_classes = 0;
  std::int64_t num_examples = 0;
};

/// All pixels are 0.5. Labels are uniform in [0, num_classes - 1), without the last class as in the original's
/// benchmark mode (all 0 for one class): label of example i = draw32(i) * (num_classes - 1) / 2^32 with draws of {seed,
/// step 0, worker 0, DrawPurpose::kSyntheticData}.
class ConstantImages final : public Dataset {
 public:
  /// @throws InvalidArgument unless all numbers in `shape` are at least 1
  ConstantImages(std::string name, const ImageSetShape& shape, std::uint64_t seed);

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return shape_.num_examples; }
  int height() const override { return shape_.height; }
  int width() const override { return shape_.width; }
  int channels() const override { return shape_.channels; }
  int num_classes() const override { return shape_.num_classes; }
  /// @throws InvalidArgument if index is not in [0, num_examples())
  std::int32_t label(std::int64_t index) const override;
  /// @throws InvalidArgument if index is not in [0, num_examples()) or image does not have image_elements() values
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override;
  bool is_augmented() const override { return false; }

 private:
  void require_index(std::int64_t index) const;

  std::string name_;
  ImageSetShape shape_;
  std::uint64_t seed_;
};

/// Sorted names of the data sets with a known shape, for make_constant_images.
std::vector<std::string> constant_image_sets();

/// A ConstantImages with the channels, classes and number of training examples of the data set `name`, whose files are
/// not needed. @param image_size  height and width; 0 = the set's own
/// @throws InvalidArgument for a set that is not in constant_image_sets()
std::unique_ptr<Dataset> make_constant_images(const std::string& name, int image_size, std::uint64_t seed);

}  // namespace terngrad
