// StepRing: what host and GPU tell each other about the steps of a burst.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "nets/net.h"
#include "trainers/loop/step_ring_memory.h"

namespace terngrad {

/// A step as its GPU saw it.
struct StepOutcome {
  std::vector<WorkerLoss> losses;  // of its workers, in their order
  TransformCounts counts;          // over these workers
  bool skipped = false;            // nothing was applied
};

/// The host works out the inputs of the next steps, the GPU runs them without the host and leaves a record of each. The
/// same captured work serves every step: it reads its number, and by that its inputs, in device memory.
class StepRing {
 public:
  /// @param num_slots    most steps of a burst
  /// @param num_workers  whose losses are kept
  StepRing(int num_slots, int num_workers, const Stream& stream);

  int num_slots() const { return static_cast<int>(inputs_.num_elements()); }
  /// Says that step `first_step` runs next, with these inputs; the steps after it follow.
  /// @param inputs  at most num_slots()
  void prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Waits for the stream. @returns what the `count` steps from `first_step` on gave, which were the last to run
  std::vector<StepOutcome> outcomes(std::uint64_t first_step, int count);

  /// Submits the beginning and the end of a step; see trainers/loop/cuda/step_ring.h.
  void submit_begin();
  /// @param losses  [num_workers]
  void submit_end(const WorkerLoss* losses, const std::uint32_t* skip);

  /// Of the step that runs, for what is submitted between its beginning and its end.
  DeviceStep step() const { return {.on_device = step_.data()}; }
  TransformCounts* counts() { return counts_.data(); }
  StepScalars update_scalars(const std::uint32_t* skip) const { return {.rate = &input_.data()->rate, .skip = skip}; }
  StepScalars average_scalars(const std::uint32_t* skip) const {
    return {.rate = &input_.data()->ema_decay, .skip = skip};
  }

 private:
  cuda::StepRingMemory memory();
  Stream stream_;
  Buffer<std::uint64_t> step_;
  Buffer<cuda::StepInput> input_;
  Buffer<TransformCounts> counts_;
  Buffer<cuda::StepInput> inputs_;
  Buffer<cuda::StepRecord> records_;
  Buffer<cuda::WorkerRecord> workers_;  // [num_slots][num_workers]
};

}  // namespace terngrad
