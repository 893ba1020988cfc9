#include "datasets/streamed_examples.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "datasets/cuda/copy_images.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::int64_t kVectorValues = 4;  // floats in an access of 128 bits

/// Distance of slots in values, rounded up so that every slot is aligned.
std::int64_t slot_values_of(std::int64_t batch_values) {
  return (batch_values + kVectorValues - 1) / kVectorValues * kVectorValues;
}

/// Raises prefetch_batches to a whole burst, which the host prepares while the GPU computes and uploads earlier ones.
PipelineOptions burst_options(PipelineOptions options, int max_steps) {
  options.prefetch_batches = std::max(options.prefetch_batches, max_steps);
  return options;
}

/// Part `index` of memory that is divided into parts of `values` values.
template <class T>
std::span<T> place(std::span<T> memory, std::size_t index, std::int64_t values) {
  const auto count = static_cast<std::size_t>(values);
  return memory.subspan(index * count, count);
}

}  // namespace

StreamedExamples::StreamedExamples(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options,
                                   std::int64_t local_batch, int max_steps, const Stream& stream)
    : DeviceExamples(local_batch, slot_values_of(local_batch * dataset->image_elements()), max_steps, stream),
      dataset_(std::move(dataset)),
      options_(burst_options(options, max_steps)),
      num_slots_(std::int64_t{2} * max_steps),
      batch_values_(local_batch * dataset_->image_elements()),
      staged_images_(num_slots_ * batch_values_, stream.device()),
      staged_labels_(num_slots_ * local_batch, stream.device()),
      slot_images_(num_slots_ * images_.num_elements(), stream.device()),
      slot_labels_(num_slots_ * local_batch, stream.device()),
      copies_(stream.device()),
      before_burst_(stream.device()),
      uploaded_step_(static_cast<std::size_t>(num_slots_)) {
  for (std::int64_t slot = 0; slot < num_slots_; ++slot) slot_uploaded_.emplace_back(stream.device());
  fill_zero(slot_images_.span(), stream_);  // slots are copied with their padding
}

StreamedExamples::~StreamedExamples() {
  try {
    copies_.synchronize();
  } catch (const Error&) {
    // A failed GPU copies no more; the first error has been reported.
  }
}

void StreamedExamples::begin_burst(std::uint64_t first_step, int count) {
  burst_end_ = first_step + static_cast<std::uint64_t>(count);
  before_burst_.record(stream_);
}

void StreamedExamples::fill(const PipelineBatch& batch) {
  const std::size_t slot = place_of(batch.step);
  const std::span<float> images = place(staged_images_.span(), slot, batch_values_);
  const std::span<std::int32_t> labels = place(staged_labels_.span(), slot, local_batch());
  uploaded_step_[slot] = 0;
  std::ranges::copy(batch.images, images.begin());
  std::ranges::copy(batch.labels, labels.begin());
  // Wait for the steps that read the slot, and for its initial zeros.
  before_burst_.hold_back(copies_);
  terngrad::upload<float>(images, place(slot_images_.span(), slot, images_.num_elements()).first(images.size()),
                          copies_);
  terngrad::upload<std::int32_t>(labels, place(slot_labels_.span(), slot, local_batch()), copies_);
  slot_uploaded_[slot].record(copies_);
  uploaded_step_[slot] = batch.step + 1;
}

void StreamedExamples::upload(std::uint64_t first_step, int count) {
  for (std::uint64_t step = first_step; step < first_step + static_cast<std::uint64_t>(count); ++step) {
    const StreamEvent& uploaded = slot_uploaded_[place_of(step)];
    if (!is_uploaded(step)) {
      if (step != options_.first_step || pipeline_ == nullptr) restart(step);
      const PipelineBatch batch = pipeline_->next();
      ++options_.first_step;
      uploaded.wait();
      fill(batch);
    }
    uploaded.hold_back(stream_);
    hold(step);
  }
}

// Runs while GPUs may wait for each other, so it must not allocate, wait, or copy from pageable memory. It does not
// touch slots of the current burst, because the next max_steps() steps have other slots.
void StreamedExamples::prefetch() {
  if (pipeline_ == nullptr) return;
  const std::uint64_t end = burst_end_ + static_cast<std::uint64_t>(max_steps());
  for (std::uint64_t step = burst_end_; step < end; ++step) {
    if (is_uploaded(step)) continue;
    if (step != options_.first_step || !slot_uploaded_[place_of(step)].has_come()) return;
    const std::optional<PipelineBatch> batch = pipeline_->try_next();
    if (!batch) return;
    ++options_.first_step;
    if (const std::uint64_t displaced = uploaded_step_[place_of(step)]; displaced > 0) forget(displaced - 1);
    fill(*batch);
  }
}

void StreamedExamples::write(const DeviceStep& step) {
  const cuda::SlotRing ring{.num_slots = static_cast<std::uint64_t>(num_slots_), .batch = local_batch(), .step = step};
  cuda::copy_slot(slot_images_.data(), images_.num_elements(), slot_labels_.data(), ring,
                  {.images = images_.data(), .labels = labels_.data()}, stream_);
}

void StreamedExamples::restart(std::uint64_t step) {
  pipeline_.reset();
  options_.first_step = step;
  pipeline_ = std::make_unique<Pipeline>(dataset_, options_);
}

}  // namespace terngrad
