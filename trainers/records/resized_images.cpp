#include "trainers/records/resized_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "datasets/formats/image_file.h"
#include "datasets/formats/jpeg_encoder.h"
#include "datasets/transforms/resize.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class ResizedImages final : public ImageSource {
 public:
  ResizedImages(std::unique_ptr<const ImageSource> source, const Resizing& resizing)
      : source_(std::move(source)), resizing_(resizing) {}

  std::size_t size() const override { return source_->size(); }

  ImageExample example(std::size_t index) const override {
    ImageExample example = source_->example(index);
    const bool is_small = std::min(example.height, example.width) <= resizing_.size;
    if (is_small && !resizing_.is_raw) return example;
    const DecodedImage whole = decoded(index, example);
    store(is_small ? whole : resize_shorter_side(whole, resizing_.size), example);
    return example;
  }

  std::string name(std::size_t index) const override { return source_->name(index); }

  std::string key(std::size_t index) const override {
    const std::string how = resizing_.is_raw ? "raw" : fmt::format("quality {}", resizing_.quality);
    return fmt::format("{}\n{} pixels, {}", source_->key(index), resizing_.size, how);
  }

 private:
  DecodedImage decoded(std::size_t index, const ImageExample& example) const {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(example.encoded.data()), example.encoded.size());
    return decode_image(name(index), bytes, resizing_.is_raw || example.channels != 1 ? 3 : 1);
  }

  void store(const DecodedImage& image, ImageExample& example) const {
    example.height = image.height;
    example.width = image.width;
    example.channels = image.channels;
    example.is_raw = resizing_.is_raw;
    example.encoded = resizing_.is_raw
                          ? std::string(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size())
                          : encode_jpeg(image, resizing_.quality);
  }

  std::unique_ptr<const ImageSource> source_;
  Resizing resizing_;
};

}  // namespace

ImageSources resized_images(ImageSources sources, const Resizing& resizing) {
  TERNGRAD_REQUIRE(resizing.size >= 1 && resizing.size <= kMaxResizedSide, "[resized_images] size must be in [1, ",
                   kMaxResizedSide, "], got ", resizing.size);
  TERNGRAD_REQUIRE(resizing.quality >= 1 && resizing.quality <= 100,
                   "[resized_images] quality must be in [1, 100], got ", resizing.quality);
  for (auto* subset : {&sources.train, &sources.test}) {
    if (*subset != nullptr) *subset = std::make_unique<const ResizedImages>(std::move(*subset), resizing);
  }
  return sources;
}

}  // namespace terngrad
