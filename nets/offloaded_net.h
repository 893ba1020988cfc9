// OffloadedNet: a net in host memory whose passes run on GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "nets/device_net.h"
#include "nets/net_plan.h"
#include "nets/planned_net.h"

namespace terngrad {

/// Net for trainers that exchange and update in host memory but compute on GPUs. A pass uploads parameters, examples
/// and states, and downloads gradients, losses and states: per step 4 bytes per parameter to each GPU, and 4 bytes per
/// parameter and worker back. Gradients are bit-identical to DeviceNet's, on any GPU of one model (contract B3).
class OffloadedNet final : public PlannedNet<Net> {
 public:
  /// @param options  for all n workers: GPU i of M computes [i * n / M, (i + 1) * n / M); thread counts are ignored
  /// @param gpus     at least one, at most one per worker
  /// @throws InvalidArgument for invalid options or GPUs; NotSupported as make_device_net
  OffloadedNet(const NetSpec& spec, const ImageShape& shape, int num_classes, const NetOptions& options, MathMode math,
               std::span<const Device> gpus);

  /// DeviceNet::notes of the first GPU.
  std::vector<std::string> notes() const { return parts_[0].net->notes(); }

  /// As Net; on_segment_ready is called for all segments at the end, when gradients are copied to the host.
  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready = {}) override;
  /// As Net, on the first GPU.
  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override;

 private:
  /// The workers of one GPU.
  struct Part {
    std::unique_ptr<DeviceNet> net;
    int first_worker = 0;  // local number
    int num_workers = 0;
    Buffer<float> parameters;
    Buffer<float> images;
    Buffer<std::int32_t> labels;
    Buffer<float> states;     // [num_workers][state_layout().flat_elements()]
    Buffer<float> gradients;  // [num_workers][layout().flat_elements()]
    Buffer<WorkerLoss> losses;
    /// Index among the process's local workers of worker `worker` of this part.
    std::size_t index_of(int worker) const {
      return static_cast<std::size_t>(first_worker) + static_cast<std::size_t>(worker);
    }
  };

  Part make_part(const NetSpec& spec, NetOptions options, MathMode math, int first_worker, int num_workers,
                 const Device& gpu) const;
  void submit(Part& part, std::span<const float> parameters, const TrainBatch& batch);
  void download(Part& part, const TrainBatch& batch, std::span<float* const> gradients, std::span<WorkerLoss> losses);

  NetOptions options_;
  std::vector<Part> parts_;
  // Buffers of predict, grown as needed.
  Buffer<float> predicted_state_, predicted_images_, logits_;
};

}  // namespace terngrad
