// StreamedExamples: the DeviceExamples of sets that stay in the host's memory or files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datasets/device_examples.h"
#include "kernels/runtime/pinned_buffer.h"
#include "kernels/runtime/stream_event.h"

namespace terngrad {

/// A Pipeline prepares batches, the host copies each into page-locked memory, and a stream of its own uploads it from
/// there, beside the steps that run. There are slots for two bursts, on either side of the bus: the next burst is
/// uploaded while one is computed. Three waits keep them apart: the host fills a slot once its last upload has ended,
/// an upload starts once all steps that were submitted before the last `prepare` have ended, and the stream of the
/// steps continues after `prepare` once the burst is uploaded.
class StreamedExamples final : public DeviceExamples {
 public:
  /// @throws as make_device_examples
  StreamedExamples(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options, std::int64_t local_batch,
                   int max_steps, const Stream& stream);
  /// Waits for uploads, which read memory of this object.
  ~StreamedExamples() override;

  ExamplesPlacement placement() const override { return ExamplesPlacement::kStreamed; }
  void prefetch() override;

 private:
  void begin_burst(std::uint64_t first_step, int count) override;
  void upload(std::uint64_t first_step, int count) override;
  void write(const DeviceStep& step) override;
  void restart(std::uint64_t step);
  /// Submits the upload of a step's batch. Its slot's last upload must have ended.
  void fill(const PipelineBatch& batch);
  bool is_uploaded(std::uint64_t step) const { return uploaded_step_[place_of(step)] == step + 1; }
  /// The slot of a step: of those for two bursts, in which it is beside the steps of the burst before it.
  std::size_t place_of(std::uint64_t step) const { return static_cast<std::size_t>(step % uploaded_step_.size()); }

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;  // first_step: of the batch that the pipeline gives next
  std::int64_t num_slots_;
  std::int64_t batch_values_;                 // of a step's images
  PinnedBuffer<float> staged_images_;         // [slots, batch_values_]
  PinnedBuffer<std::int32_t> staged_labels_;  // [slots, local_batch]
  Buffer<float> slot_images_;                 // [slots, images_.num_elements()]
  Buffer<std::int32_t> slot_labels_;          // [slots, local_batch]
  Stream copies_;
  StreamEvent before_burst_;                  // what the stream had been given when a burst was prepared last
  std::vector<StreamEvent> slot_uploaded_;    // [slots], in copies_
  std::vector<std::uint64_t> uploaded_step_;  // [slots]: 1 + the step whose upload was submitted last; 0 = none
  std::uint64_t burst_end_ = 0;               // the step after those prepared last
  std::unique_ptr<Pipeline> pipeline_;        // made for the first step that is asked for
};

}  // namespace terngrad
