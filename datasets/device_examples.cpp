#include "datasets/device_examples.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "datasets/batch_order.h"
#include "datasets/common/entry_ring.h"
#include "datasets/cuda/copy_images.h"
#include "datasets/cuda/crop_images.h"
#include "datasets/streamed_examples.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::int64_t kMaxRingValues = std::int64_t{1} << 40;

/// Base of both resident placements: a ring of entries with labels.
class EntryExamples : public DeviceExamples {
 protected:
  EntryExamples(const std::shared_ptr<const Dataset>& dataset, const PipelineOptions& options, std::int64_t local_batch,
                int max_steps, const Stream& stream)
      : DeviceExamples(local_batch, local_batch * dataset->image_elements(), max_steps, stream),
        entries_(dataset, options, max_steps, stream.device()) {}

  cuda::SlotRing ring(const DeviceStep& step) const {
    return {.num_slots = static_cast<std::uint64_t>(max_steps()), .batch = local_batch(), .step = step};
  }
  cuda::BatchTarget target() { return {.images = images_.data(), .labels = labels_.data()}; }

  common::EntryRing entries_;

 private:
  void upload(std::uint64_t first_step, int count) override {
    entries_.upload(first_step, count, slot_of(first_step), stream_);
    for (int i = 0; i < count; ++i) hold(first_step + static_cast<std::uint64_t>(i));
  }
};

class CroppedExamples final : public EntryExamples {
 public:
  CroppedExamples(const std::shared_ptr<const Dataset>& dataset, const CropSource& source,
                  const PipelineOptions& options, std::int64_t local_batch, int max_steps, const Stream& stream)
      : EntryExamples(dataset, options, local_batch, max_steps, stream),
        planar_(common::upload_examples<std::uint8_t>(
            dataset->num_examples(), std::int64_t{kAugmentedChannels} * source.source_size * source.source_size,
            options.num_threads, stream_,
            [&](std::int64_t index, std::span<std::uint8_t> pixels) {
              const std::span<const std::uint8_t> stored = source.planar(index);
              TERNGRAD_REQUIRE(stored.size() == pixels.size(), "[DeviceExamples] crop_source of data set ",
                               dataset->name(), ": image ", index, " must hold ", pixels.size(), " bytes, holds ",
                               stored.size());
              std::ranges::copy(stored, pixels.begin());
            })),
        task_{.planar = planar_.data(),
              .source_size = source.source_size,
              .size = dataset->height(),
              .is_augmented = source.is_augmented,
              .seed = options.seed,
              .entries = entries_.on_device()} {}

  ExamplesPlacement placement() const override { return ExamplesPlacement::kCropped; }

 private:
  void write(const DeviceStep& step) override { cuda::crop_images(task_, ring(step), target(), stream_); }

  Buffer<std::uint8_t> planar_;
  cuda::CropTask task_;
};

class ResidentExamples final : public EntryExamples {
 public:
  ResidentExamples(const std::shared_ptr<const Dataset>& dataset, const PipelineOptions& options,
                   std::int64_t local_batch, int max_steps, const Stream& stream)
      : EntryExamples(dataset, options, local_batch, max_steps, stream),
        image_elements_(dataset->image_elements()),
        examples_(common::upload_examples<float>(dataset->num_examples(), image_elements_, options.num_threads, stream_,
                                                 [&](std::int64_t index, std::span<float> image) {
                                                   dataset->read(index, {.seed = options.seed, .epoch = 0}, image);
                                                 })) {}

  ExamplesPlacement placement() const override { return ExamplesPlacement::kResident; }

 private:
  void write(const DeviceStep& step) override {
    cuda::gather_images(examples_.data(), image_elements_, entries_.on_device(), ring(step), target(), stream_);
  }

  std::int64_t image_elements_;
  Buffer<float> examples_;
};

/// True if the set's images, of `example_bytes` each, may stay in device memory.
bool fits(const Dataset& dataset, std::int64_t example_bytes) {
  return dataset.num_examples() <= kMaxResidentBytes / example_bytes;
}

std::int64_t checked_local_batch(const Dataset* dataset, const PipelineOptions& options, int max_steps,
                                 const Stream& stream) {
  const std::int64_t local_batch = BatchOrder(dataset, options).local_batch();
  TERNGRAD_REQUIRE(max_steps >= 1, "[DeviceExamples] max_steps must be at least 1, got ", max_steps);
  TERNGRAD_REQUIRE(dataset->image_elements() >= 1, "[DeviceExamples] images of data set ", dataset->name(),
                   " must not be empty");
  TERNGRAD_REQUIRE(local_batch <= kMaxRingValues / max_steps / dataset->image_elements(),
                   "[DeviceExamples] max_steps * batch * image values must be at most ", kMaxRingValues, ", got ",
                   max_steps, " * ", local_batch, " * ", dataset->image_elements());
  TERNGRAD_REQUIRE(stream.device().is_cuda(), "[DeviceExamples] stream must be a GPU's, is of ",
                   stream.device().name());
  return local_batch;
}

/// Checks the properties of a crop source without which kernels would access memory out of bounds.
void check_crop_source(const Dataset& dataset, const CropSource& source) {
  TERNGRAD_REQUIRE(dataset.height() == dataset.width() && dataset.channels() == kAugmentedChannels &&
                       dataset.height() <= source.source_size && source.source_size <= kMaxAugmentedSide,
                   "[DeviceExamples] crop_source of data set ", dataset.name(), ": windows of ", dataset.height(),
                   " x ", dataset.width(), " x ", dataset.channels(), " cannot be taken of RGB images of side ",
                   source.source_size, ", at most ", kMaxAugmentedSide);
}

}  // namespace

DeviceExamples::DeviceExamples(std::int64_t local_batch, std::int64_t image_values, int max_steps, const Stream& stream)
    : stream_(stream),
      images_(image_values, stream.device()),
      labels_(local_batch, stream.device()),
      held_(static_cast<std::size_t>(max_steps)) {}

void DeviceExamples::prepare(std::uint64_t first_step, int count) {
  TERNGRAD_REQUIRE(count >= 1 && count <= max_steps(), "[DeviceExamples] count must be in [1, ", max_steps(), "], got ",
                   count);
  TERNGRAD_REQUIRE(first_step >> 40 == 0 && (first_step + static_cast<std::uint64_t>(count) - 1) >> 40 == 0,
                   "[DeviceExamples] steps must be below 2^40, got ", count, " from ", first_step);
  const std::uint64_t end = first_step + static_cast<std::uint64_t>(count);
  begin_burst(first_step, count);
  for (std::uint64_t step = first_step; step < end;) {
    if (holds(step)) {
      ++step;
      continue;
    }
    std::uint64_t run_end = step;
    do {
      held_[static_cast<std::size_t>(slot_of(run_end++))] = 0;
    } while (run_end < end && slot_of(run_end) != 0 && !holds(run_end));
    upload(step, static_cast<int>(run_end - step));
    step = run_end;
  }
}

void DeviceExamples::submit(const DeviceStep& step) {
  TERNGRAD_REQUIRE(step.on_device != nullptr || holds(step.step), "[DeviceExamples] step ", step.step,
                   " is not prepared");
  write(step);
}

std::unique_ptr<DeviceExamples> make_device_examples(std::shared_ptr<const Dataset> dataset,
                                                     const PipelineOptions& options, int max_steps,
                                                     const Stream& stream) {
  const std::int64_t local_batch = checked_local_batch(dataset.get(), options, max_steps, stream);
  if (const std::optional<CropSource> source = dataset->crop_source(); source.has_value()) {
    check_crop_source(*dataset, *source);
    if (fits(*dataset, std::int64_t{kAugmentedChannels} * source->source_size * source->source_size)) {
      return std::make_unique<CroppedExamples>(dataset, *source, options, local_batch, max_steps, stream);
    }
  }
  if (!dataset->is_augmented() && fits(*dataset, dataset->image_elements() * std::int64_t{sizeof(float)})) {
    return std::make_unique<ResidentExamples>(dataset, options, local_batch, max_steps, stream);
  }
  return std::make_unique<StreamedExamples>(std::move(dataset), options, local_batch, max_steps, stream);
}

}  // namespace terngrad
