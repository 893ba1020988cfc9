// DeviceExamples: training examples in a GPU's memory, for steps that run without the host.
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

/// Where the images of a set are while it is trained on.
enum class ExamplesPlacement {
  kCropped,   // stored images in device memory, each step's windows taken and distorted there
  kResident,  // all images, as the net takes them, in device memory
  kStreamed,  // in the host's memory or files: a Pipeline prepares each step's batch, which is uploaded
};

/// Largest size of a set's images that are kept in device memory: MNIST takes 0.2 GB, CIFAR-10 0.2 GB, and there is
/// room for a net on any GPU of data centres. Larger sets are streamed.
inline constexpr std::int64_t kMaxResidentBytes = std::int64_t{4} << 30;

/// The examples that a Pipeline with the same options gives, bit by bit, in device memory.
///
/// A burst of steps is prepared by the host, and then each step writes its examples where the net reads them, without
/// the host: work that is captured once and replayed with the step in device memory. There are max_steps() slots; step
/// s is in slot s mod max_steps(), so that as many steps are prepared at once as a burst may have.
class DeviceExamples {
 public:
  virtual ~DeviceExamples() = default;
  DeviceExamples(const DeviceExamples&) = delete;
  DeviceExamples& operator=(const DeviceExamples&) = delete;

  /// Makes the examples of steps [first_step, first_step + count) available, in the order of the stream, and forgets
  /// those of other steps in their slots. What is there already stays. Any steps may be asked for, but a streamed set
  /// is fast only when they follow each other. Not while the stream is captured; it may wait for the work before it.
  /// @throws InvalidArgument unless 1 <= count <= max_steps() and the steps are below 2^40; whatever Dataset::read
  /// threw, when the steps before the failed one are available and asking again fails again; DeviceError
  void prepare(std::uint64_t first_step, int count);

  /// Begins to upload, of the steps after those prepared last, what the host has read; they are still to be prepared.
  /// Those prepared last stay, others are forgotten where they are in the way. The GPU uploads beside the work that it
  /// has been given; the host neither waits nor allocates. Since the last call of `prepare`, no steps but its own may
  /// have been submitted.
  /// @throws DeviceError
  virtual void prefetch() {}

  /// Submits the writing of a step's examples into images() and labels(). Can be captured. The step must have been
  /// prepared: of a step in device memory that has not, whatever its slot holds is written.
  /// @throws InvalidArgument for a step told by the host that is not prepared
  void submit(const DeviceStep& step);

  /// Of the step submitted last, in the order of the stream; device memory, the same at every call.
  const float* images() const { return images_.data(); }         // [local_batch(), height, width, channels]
  const std::int32_t* labels() const { return labels_.data(); }  // [local_batch()]

  /// Examples of the local workers in a step, worker after worker.
  std::int64_t local_batch() const { return labels_.num_elements(); }
  int max_steps() const { return static_cast<int>(held_.size()); }
  virtual ExamplesPlacement placement() const = 0;

 protected:
  /// @param image_values  room in images(), at least those of a batch
  DeviceExamples(std::int64_t local_batch, std::int64_t image_values, int max_steps, const Stream& stream);

  std::int64_t slot_of(std::uint64_t step) const { return static_cast<std::int64_t>(step % held_.size()); }
  /// To be called once a step is in its slot.
  void hold(std::uint64_t step) { held_[static_cast<std::size_t>(slot_of(step))] = step + 1; }
  bool holds(std::uint64_t step) const { return held_[static_cast<std::size_t>(slot_of(step))] == step + 1; }
  /// To be called where a step is not there any more.
  void forget(std::uint64_t step) {
    if (holds(step)) held_[static_cast<std::size_t>(slot_of(step))] = 0;
  }

  Stream stream_;
  Buffer<float> images_;
  Buffer<std::int32_t> labels_;

 private:
  /// Called before the slots of a burst are filled, with what `prepare` was given.
  virtual void begin_burst(std::uint64_t /*first_step*/, int /*count*/) {}
  /// Fills the slots of `count` steps, which follow each other in the ring, and holds them.
  virtual void upload(std::uint64_t first_step, int count) = 0;
  virtual void write(const DeviceStep& step) = 0;

  std::vector<std::uint64_t> held_;  // 1 + the step in each slot; 0 = none
};

/// Puts a set's examples within a GPU's reach: kCropped for sets that offer their stored images (Dataset::crop_source),
/// else kResident for those that are not augmented, in either case up to kMaxResidentBytes; kStreamed for the rest.
/// Resident images are all read here, by options.num_threads threads. Streamed ones take 2 max_steps batches of device
/// memory, as many of the host's page-locked memory, and of its other memory max_steps or options.prefetch_batches, if
/// that is more, and one: a burst is uploaded during the one before, and prepared by the host during the one before
/// that.
/// @param stream  of a GPU; copies of it do all uploads and writes
/// @throws InvalidArgument for options that Pipeline refuses, max_steps below 1, batches beyond 2^40 values in all, a
/// CPU's stream; DeviceError, bad_alloc; whatever Dataset::read throws
std::unique_ptr<DeviceExamples> make_device_examples(std::shared_ptr<const Dataset> dataset,
                                                     const PipelineOptions& options, int max_steps,
                                                     const Stream& stream);

}  // namespace terngrad
