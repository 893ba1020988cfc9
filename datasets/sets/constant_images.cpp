#include "datasets/sets/constant_images.h"

#include <algorithm>
#include <array>
#include <utility>

#include "datasets/sets/cifar10.h"
#include "datasets/sets/grey_images.h"
#include "datasets/sets/synthetic.h"
#include "datasets/sets/synthetic224.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

struct KnownSet {
  const char* name;
  ImageSetShape shape;  // shape of the training subset
};
constexpr std::array kKnownSets = {
    KnownSet{"cifar10", {kCifar10CropSize, kCifar10CropSize, 3, 10, 50000}},
    KnownSet{"imagenet", {224, 224, 3, 1001, 1281167}},
    KnownSet{"mnist", {28, 28, 1, 10, 60000}},
    KnownSet{"synthetic", {kSyntheticImageSize, kSyntheticImageSize, 1, 10, kSyntheticTrainExamples}},
    KnownSet{"synthetic224", {224, 224, 3, kSynthetic224Classes, kSynthetic224TrainExamples}},
};

}  // namespace

ConstantImages::ConstantImages(std::string name, const ImageSetShape& shape, std::uint64_t seed)
    : name_(std::move(name)), shape_(shape), seed_(seed) {
  TERNGRAD_REQUIRE(
      shape.height >= 1 && shape.width >= 1 && shape.channels >= 1 && shape.num_classes >= 1 && shape.num_examples >= 1,
      "[", name_, "] height, width, channels, classes and examples must be at least 1, got ", shape.height, ", ",
      shape.width, ", ", shape.channels, ", ", shape.num_classes, ", ", shape.num_examples);
}

void ConstantImages::require_index(std::int64_t index) const {
  TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[", name_, "] example index must be in [0, ", num_examples(),
                   "), got ", index);
}

std::int32_t ConstantImages::label(std::int64_t index) const {
  require_index(index);
  const DrawKey key{.seed = seed_, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  const auto choices = static_cast<std::uint64_t>(std::max(shape_.num_classes - 1, 1));
  return static_cast<std::int32_t>(draw32(key, static_cast<std::uint64_t>(index)) * choices >> 32);
}

void ConstantImages::read(std::int64_t index, const ExampleVisit&, std::span<float> image) const {
  require_index(index);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(image.size()) == image_elements(), "[", name_, "] an image needs ",
                   image_elements(), " values, the buffer holds ", image.size());
  std::ranges::fill(image, 0.5f);
}

std::vector<std::string> constant_image_sets() {
  std::vector<std::string> names;
  names.reserve(kKnownSets.size());
  for (const KnownSet& set : kKnownSets) names.emplace_back(set.name);
  return names;
}

std::unique_ptr<Dataset> make_constant_images(const std::string& name, int image_size, std::uint64_t seed) {
  check_image_size(name, image_size);
  std::string known;
  for (const KnownSet& set : kKnownSets) {
    if (name == set.name) {
      ImageSetShape shape = set.shape;
      if (image_size > 0) shape.height = shape.width = image_size;
      return std::make_unique<ConstantImages>(name + " (constant images)", shape, seed);
    }
    known += (known.empty() ? "" : ", ") + std::string(set.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[constant_images] the shape of data set '", name,
                 "' is not known without its files; there are: ", known);
}

}  // namespace terngrad
