// DeviceExamples: training examples in GPU memory, for steps that run without the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"

namespace terngrad {

/// Location of a set's images during training.
enum class ExamplesPlacement {
  kCropped,   // stored images in device memory, where windows are cropped and distorted
  kResident,  // all preprocessed images in device memory
  kStreamed,  // host memory or files: a Pipeline prepares each step's batch, which is uploaded
};

/// Maximum bytes of a set's images in device memory; larger sets are streamed. MNIST and CIFAR-10 take 0.2 GB each. The
/// limit leaves room for a net on any data center GPU.
inline constexpr std::int64_t kMaxResidentBytes = std::int64_t{4} << 30;

/// Batches in device memory, bit-identical to those of a Pipeline with the same options.
///
/// The host prepares a burst of steps. Then each step copies its examples to the net's input without the host, so the
/// work can be captured once and replayed with the step number in device memory. Step s is in slot s mod max_steps(),
/// so a burst has at most max_steps() steps.
class DeviceExamples {
 public:
  virtual ~DeviceExamples() = default;
  DeviceExamples(const DeviceExamples&) = delete;
  DeviceExamples& operator=(const DeviceExamples&) = delete;

  /// Makes the examples of steps [first_step, first_step + count) available, in stream order, replacing other steps in
  /// their slots; steps that are prepared already are kept. Steps may be requested in any order, but streamed sets are
  /// fast for consecutive ones only. Must not be called during stream capture; may wait for earlier work.
  /// @throws InvalidArgument unless 1 <= count <= max_steps() and the steps are below 2^40; any exception of
  /// Dataset::read: steps before the failed one are then available, and a retry fails again; DeviceError
  void prepare(std::uint64_t first_step, int count);

  /// Starts uploading steps after the last prepared ones, as far as the host has read them; `prepare` must still be
  /// called for them. Keeps the last prepared steps, may replace older ones. Uploads run concurrently with submitted
  /// work; the host neither waits nor allocates. Since the last `prepare`, only its steps may have been submitted.
  /// @throws DeviceError
  virtual void prefetch() {}

  /// Submits the copy of a step's examples to images() and labels(). Can be captured. The step must be prepared; this
  /// is not checked for step numbers in device memory.
  /// @throws InvalidArgument for a step number in host memory that is not prepared
  void submit(const DeviceStep& step);

  /// Examples of the last submitted step, in stream order; the same device memory at every call.
  const float* images() const { return images_.data(); }         // [local_batch(), height, width, channels]
  const std::int32_t* labels() const { return labels_.data(); }  // [local_batch()]

  /// Number of the local workers' examples per step, which are stored worker after worker.
  std::int64_t local_batch() const { return labels_.num_elements(); }
  int max_steps() const { return static_cast<int>(held_.size()); }
  virtual ExamplesPlacement placement() const = 0;

 protected:
  /// @param image_values  size of images(), at least that of a batch
  DeviceExamples(std::int64_t local_batch, std::int64_t image_values, int max_steps, const Stream& stream);

  std::int64_t slot_of(std::uint64_t step) const { return static_cast<std::int64_t>(step % held_.size()); }
  /// Marks a step as present in its slot.
  void hold(std::uint64_t step) { held_[static_cast<std::size_t>(slot_of(step))] = step + 1; }
  bool holds(std::uint64_t step) const { return held_[static_cast<std::size_t>(slot_of(step))] == step + 1; }
  /// Marks a step as no longer present.
  void forget(std::uint64_t step) {
    if (holds(step)) held_[static_cast<std::size_t>(slot_of(step))] = 0;
  }

  Stream stream_;
  Buffer<float> images_;
  Buffer<std::int32_t> labels_;

 private:
  /// Called before the slots of a burst are filled, with the arguments of `prepare`.
  virtual void begin_burst(std::uint64_t /*first_step*/, int /*count*/) {}
  /// Fills and marks the slots of `count` steps, which are consecutive in the ring.
  virtual void upload(std::uint64_t first_step, int count) = 0;
  virtual void write(const DeviceStep& step) = 0;

  std::vector<std::uint64_t> held_;  // 1 + the step in each slot; 0 = none
};

/// Chooses the placement: kCropped for sets with a Dataset::crop_source, else kResident for sets without augmentation,
/// both up to kMaxResidentBytes; else kStreamed. Resident images are read here, by options.num_threads threads.
/// Streamed sets take 2 max_steps batches of device memory, as many of page-locked host memory, and
/// max(max_steps, options.prefetch_batches) + 1 batches of other host memory: a burst is uploaded during the previous
/// one, and prepared by the host during the one before that.
/// @param stream  a GPU's stream, used for all writes
/// @throws InvalidArgument for options that Pipeline rejects, max_steps below 1, slots of more than 2^40 values in
/// total, a CPU's stream; DeviceError, bad_alloc; any exception of Dataset::read
std::unique_ptr<DeviceExamples> make_device_examples(std::shared_ptr<const Dataset> dataset,
                                                     const PipelineOptions& options, int max_steps,
                                                     const Stream& stream);

}  // namespace terngrad
