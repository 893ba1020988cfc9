#include "bench/nets/train_step_subject.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "datasets/device_examples.h"
#include "datasets/sets/constant_images.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "nets/device_net.h"

namespace terngrad::bench {
namespace {

/// Stored images of random pixels that are treated as those of CIFAR-10: a random window, flipped and distorted.
class StoredPictures final : public Dataset {
 public:
  StoredPictures() : pixels_(static_cast<std::size_t>(kImages * kBytes)) {
    const DrawKey key{.seed = 1, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
    for (std::size_t i = 0; i < pixels_.size(); i += 16) {
      const auto words = draw_block(key, i / 16);
      std::memcpy(pixels_.data() + i, words.data(), 16);
    }
  }
  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return kImages; }
  int height() const override { return kCrop; }
  int width() const override { return kCrop; }
  int channels() const override { return kAugmentedChannels; }
  int num_classes() const override { return 10; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index % 10); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    standardize_crop(planar(index), kSide, draw_augmentation(visit, index, kSide - kCrop), kCrop, image);
  }
  std::optional<CropSource> crop_source() const override {
    return CropSource{
        .source_size = kSide, .is_augmented = true, .planar = [this](std::int64_t index) { return planar(index); }};
  }

 private:
  static constexpr int kSide = 32;
  static constexpr int kCrop = 24;
  static constexpr std::int64_t kImages = 10'000;
  static constexpr std::int64_t kBytes = std::int64_t{kAugmentedChannels} * kSide * kSide;
  std::span<const std::uint8_t> planar(std::int64_t index) const {
    return std::span(pixels_).subspan(static_cast<std::size_t>(index * kBytes), static_cast<std::size_t>(kBytes));
  }

  std::string name_ = "stored_pictures";
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

TrainStepRecipe recipe_of(const TrainStepSubject& subject) {
  if (subject.net == "lenet") return {"momentum", 0.0005};
  TERNGRAD_REQUIRE(subject.net == "cifar10_alexnet", "[train step] no recipe for net ", subject.net);
  return {"adam", 0.004};
}

std::shared_ptr<const Dataset> make_dataset_of(const TrainStepSubject& subject) {
  if (subject.net == "lenet") return make_constant_images("mnist", 28, 1);
  return std::make_shared<StoredPictures>();
}

std::unique_ptr<DeviceNet> make_net_of(const TrainStepSubject& subject, const Dataset& dataset, const Stream& stream) {
  const NetOptions options{.num_local_workers = subject.num_workers,
                           .examples_per_worker = subject.batch_size / subject.num_workers};
  return make_device_net(subject.net, {dataset.height(), dataset.width(), dataset.channels()}, dataset.num_classes(),
                         options, subject.math, stream);
}

std::unique_ptr<DeviceExamples> make_examples_of(const TrainStepSubject& subject,
                                                 const std::shared_ptr<const Dataset>& dataset, int max_steps,
                                                 const Stream& stream) {
  PipelineOptions options;
  options.batch_size = subject.batch_size;
  options.num_workers = subject.num_workers;
  options.num_local_workers = subject.num_workers;
  return make_device_examples(dataset, options, max_steps, stream);
}

CompressedAllReduceOptions exchange_options_of(const TrainStepSubject& subject) {
  CompressedAllReduceOptions options;
  options.codecs.codec = "ternary:clip_factor=2.5";
  options.codecs.context.num_workers = subject.num_workers;
  return options;
}

WorkerRange workers_of(const TrainStepSubject& subject) {
  return {.num_workers = subject.num_workers, .num_local_workers = subject.num_workers};
}

}  // namespace terngrad::bench
