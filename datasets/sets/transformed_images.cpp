#include "datasets/sets/transformed_images.h"

#include <utility>

#include "datasets/sets/wrapped_dataset.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class TransformedImages final : public WrappedDataset {
 public:
  TransformedImages(std::shared_ptr<const Dataset> dataset, ImageTransform transform, bool is_augmented)
      : WrappedDataset(std::move(dataset)), transform_(std::move(transform)), is_augmented_(is_augmented) {}
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    WrappedDataset::read(index, visit, image);
    transform_(index, visit, image);
  }
  bool is_augmented() const override { return is_augmented_ || WrappedDataset::is_augmented(); }
  std::optional<CropSource> crop_source() const override { return std::nullopt; }

 private:
  ImageTransform transform_;
  bool is_augmented_;
};

}  // namespace

std::unique_ptr<Dataset> transformed_images(std::shared_ptr<const Dataset> dataset, ImageTransform transform,
                                            bool is_augmented) {
  TERNGRAD_REQUIRE(dataset != nullptr && transform != nullptr, "[transformed_images] needs a data set and a transform");
  return std::make_unique<TransformedImages>(std::move(dataset), std::move(transform), is_augmented);
}

}  // namespace terngrad
