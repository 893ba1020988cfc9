// OffloadedNet: a net whose spans are in host memory and whose passes run on GPUs.
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

/// What a trainer that exchanges and updates in host memory computes with on GPUs. A pass uploads parameters, examples
/// and states, and brings gradients, losses and states back: per step 4 bytes per parameter to each GPU, and from it 4
/// bytes per parameter and worker. Gradients are bit-identical to DeviceNet's, whichever GPU of one model computes a
/// worker (contract B3).
class OffloadedNet final : public PlannedNet<Net> {
 public:
  /// @param options  of all workers, of which GPU i of M computes [i * n / M, (i + 1) * n / M); threads have no meaning
  /// @param gpus     at least one, and no more than workers
  /// @throws InvalidArgument for impossible options or GPUs; NotSupported as make_device_net
  OffloadedNet(const NetSpec& spec, const ImageShape& shape, int num_classes, const NetOptions& options, MathMode math,
               std::span<const Device> gpus);

  /// As DeviceNet::notes, of the first GPU.
  std::vector<std::string> notes() const { return parts_[0].net->notes(); }

  /// As Net says; segments are announced when all are there, since they come to the host at the end.
  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready = {}) override;
  /// On the first GPU.
  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override;

 private:
  /// What one GPU computes.
  struct Part {
    std::unique_ptr<DeviceNet> net;
    int first_worker = 0;  // among the local ones
    int num_workers = 0;
    Buffer<float> parameters;
    Buffer<float> images;
    Buffer<std::int32_t> labels;
    Buffer<float> states;     // [num_workers][state_layout().flat_elements()]
    Buffer<float> gradients;  // [num_workers][layout().flat_elements()]
    Buffer<WorkerLoss> losses;
    /// Of one of its workers, among the local ones.
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
  // Of predict, grown as needed.
  Buffer<float> predicted_state_, predicted_images_, logits_;
};

}  // namespace terngrad
