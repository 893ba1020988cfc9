#include "trainers/records/array_images.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/npy.h"
#include "datasets/formats/png_image.h"
#include "datasets/sets/cifar10.h"
#include "datasets/sets/mnist.h"
#include "datasets/sets/npy_images.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

/// Base class of sources of raw images.
class RawImages : public ImageSource {
 public:
  ImageExample example(std::size_t index) const override {
    const DecodedImage image = raw(index);
    return {.encoded = encode_png(image),
            .height = image.height,
            .width = image.width,
            .channels = image.channels,
            .label = label(index)};
  }
  std::string name(std::size_t index) const override { return fmt::format("image {}", index); }
  std::string key(std::size_t index) const override {
    return fmt::format("{} {}", label(index), crc32c(raw(index).pixels));
  }

 protected:
  virtual DecodedImage raw(std::size_t index) const = 0;
  virtual std::int32_t label(std::size_t index) const = 0;
};

/// Images in memory, [size, height, width, channels].
class PackedImages final : public RawImages {
 public:
  PackedImages(std::vector<std::uint8_t> pixels, std::vector<std::int32_t> labels, int height, int width, int channels)
      : pixels_(std::move(pixels)), labels_(std::move(labels)), height_(height), width_(width), channels_(channels) {}

  std::size_t size() const override { return labels_.size(); }

 private:
  DecodedImage raw(std::size_t index) const override {
    const std::size_t elements = std::size_t{1} * static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_) *
                                 static_cast<std::size_t>(channels_);
    const auto begin = pixels_.begin() + static_cast<std::ptrdiff_t>(index * elements);
    return {.height = height_,
            .width = width_,
            .channels = channels_,
            .pixels = std::vector<std::uint8_t>(begin, begin + static_cast<std::ptrdiff_t>(elements))};
  }
  std::int32_t label(std::size_t index) const override { return labels_[index]; }

  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  int height_;
  int width_;
  int channels_;
};

std::unique_ptr<const ImageSource> mnist_subset(const std::string& folder, Subset subset) {
  GreyPixels grey = read_mnist(folder, subset);
  return std::make_unique<const PackedImages>(std::move(grey.pixels),
                                              std::vector<std::int32_t>(grey.labels.begin(), grey.labels.end()),
                                              grey.height, grey.width, 1);
}

class Cifar10Images final : public RawImages {
 public:
  Cifar10Images(const std::string& folder, Subset subset)
      : set_(make_cifar10({.data_dir = folder, .subset = subset})), source_(*set_->crop_source()) {}

  std::size_t size() const override { return static_cast<std::size_t>(set_->num_examples()); }

 private:
  DecodedImage raw(std::size_t index) const override {
    const std::span<const std::uint8_t> planar = source_.planar(static_cast<std::int64_t>(index));
    const std::size_t plane = planar.size() / 3;
    DecodedImage image{.height = source_.source_size, .width = source_.source_size, .channels = 3, .pixels = {}};
    image.pixels.resize(planar.size());
    for (std::size_t i = 0; i < plane; ++i) {
      for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = planar[c * plane + i];
    }
    return image;
  }
  std::int32_t label(std::size_t index) const override { return set_->label(static_cast<std::int64_t>(index)); }

  std::unique_ptr<const Dataset> set_;
  CropSource source_;
};

std::unique_ptr<const ImageSource> npy_subset(const std::string& folder, const std::string& subset) {
  std::filesystem::path images_path;
  try {
    images_path = find_data_file(folder, subset + "_images.npy");
  } catch (const MissingFileError&) {
    return nullptr;
  }
  const std::filesystem::path labels_path = find_data_file(folder, subset + "_labels.npy");
  const std::vector<std::uint8_t> images = read_data_file(images_path);
  const std::vector<std::uint8_t> labels = read_data_file(labels_path);
  const NpyArray array = parse_npy(images_path.string(), images);
  const bool is_grey = array.shape.size() == 3;
  if (array.kind != NpyKind::kUnsigned || array.element_bytes != 1 || (!is_grey && array.shape.size() != 4) ||
      (!is_grey && array.shape[3] != 1 && array.shape[3] != 3)) {
    TERNGRAD_THROW(DataError, "'", images_path.string(),
                   "': expected bytes (uint8) of [n, height, width] or [n, height, width, 1 or 3], found ",
                   array.element_bytes, " bytes an element of ", shape_text(array.shape));
  }
  std::vector<std::int32_t> of_images = read_npy_labels(labels_path.string(), parse_npy(labels_path.string(), labels));
  if (static_cast<std::int64_t>(of_images.size()) != array.shape[0] || array.shape[1] < 1 || array.shape[2] < 1 ||
      array.shape[1] > kMaxImageSide || array.shape[2] > kMaxImageSide) {
    TERNGRAD_THROW(DataError, "'", images_path.string(), "': expected an image of 1 to ", kMaxImageSide,
                   " pixels a side for each of ", of_images.size(), " labels, found ", shape_text(array.shape));
  }
  return std::make_unique<const PackedImages>(std::vector<std::uint8_t>(array.data.begin(), array.data.end()),
                                              std::move(of_images), static_cast<int>(array.shape[1]),
                                              static_cast<int>(array.shape[2]),
                                              is_grey ? 1 : static_cast<int>(array.shape[3]));
}

}  // namespace

ImageSources mnist_images(const std::string& folder) {
  return {.train = mnist_subset(folder, Subset::kTrain),
          .test = mnist_subset(folder, Subset::kTest),
          .names = {},
          .is_shuffled = false};
}

ImageSources cifar10_images(const std::string& folder) {
  constexpr std::array kNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                 "dog",      "frog",       "horse", "ship", "truck"};
  ImageSources sources{.train = std::make_unique<const Cifar10Images>(folder, Subset::kTrain),
                       .test = std::make_unique<const Cifar10Images>(folder, Subset::kTest),
                       .names = {},
                       .is_shuffled = false};
  for (std::size_t label = 0; label < kNames.size(); ++label) {
    sources.names.emplace(static_cast<std::int32_t>(label), kNames[label]);
  }
  return sources;
}

ImageSources npy_images(const std::string& folder) {
  ImageSources sources;
  sources.train = npy_subset(folder, "train");
  sources.test = npy_subset(folder, "test");
  if (sources.train == nullptr && sources.test == nullptr) {
    TERNGRAD_THROW(DataError, "'", folder, "' has neither train_images.npy nor test_images.npy");
  }
  return sources;
}

}  // namespace terngrad
