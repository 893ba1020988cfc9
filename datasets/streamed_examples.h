// StreamedExamples: DeviceExamples for sets that stay in host memory or files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/device_examples.h"
#include "kernels/runtime/pinned_buffer.h"
#include "kernels/runtime/stream_event.h"

namespace terngrad {

/// A Pipeline prepares batches, the host copies each to page-locked memory, and a separate stream uploads it while
/// steps run. Host and device memory have slots for two bursts, so that one is uploaded while the other is computed.
/// Synchronization: the host refills a slot after its last upload; an upload starts after all steps that were submitted
/// before the last `prepare`; the steps' stream waits after `prepare` until the burst is uploaded.
class StreamedExamples final : public DeviceExamples {
 public:
  /// Parameters and exceptions as in make_device_examples.
  StreamedExamples(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options, std::int64_t local_batch,
                   int max_steps, const Stream& stream);
  /// Waits for uploads, which read this object's memory.
  ~StreamedExamples() override;

  ExamplesPlacement placement() const override { return ExamplesPlacement::kStreamed; }
  void prefetch() override;

 private:
  void begin_burst(std::uint64_t first_step, int count) override;
  void upload(std::uint64_t first_step, int count) override;
  void write(const DeviceStep& step) override;
  void restart(std::uint64_t step);
  /// Submits the upload of a step's batch. The slot's previous upload must have ended.
  void fill(const PipelineBatch& batch);
  bool is_uploaded(std::uint64_t step) const { return uploaded_step_[place_of(step)] == step + 1; }
  /// Slot of a step among those for two bursts.
  std::size_t place_of(std::uint64_t step) const { return static_cast<std::size_t>(step % uploaded_step_.size()); }

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;  // first_step: step of the pipeline's next batch
  std::int64_t num_slots_;
  std::int64_t batch_values_;                 // image values per step
  PinnedBuffer<float> staged_images_;         // [slots, batch_values_]
  PinnedBuffer<std::int32_t> staged_labels_;  // [slots, local_batch]
  Buffer<float> slot_images_;                 // [slots, images_.num_elements()]
  Buffer<std::int32_t> slot_labels_;          // [slots, local_batch]
  Stream copies_;
  StreamEvent before_burst_;                  // recorded in the steps' stream by the last prepare
  std::vector<StreamEvent> slot_uploaded_;    // [slots], recorded in copies_
  std::vector<std::uint64_t> uploaded_step_;  // [slots]: 1 + the step of the last submitted upload; 0 = none
  std::uint64_t burst_end_ = 0;               // the step after the last prepared burst
  std::unique_ptr<Pipeline> pipeline_;        // created for the first requested step
};

}  // namespace terngrad
