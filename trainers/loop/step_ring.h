// StepRing: inputs and results of the steps of a burst, in device memory.
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

/// Results of a step on one GPU.
struct StepOutcome {
  std::vector<WorkerLoss> losses;  // [num_workers] of this GPU
  TransformCounts counts;          // sum over these workers
  bool skipped = false;            // true if no update was applied
};

/// A ring buffer of step inputs and records. The host writes the inputs of the next steps; the GPU runs them without
/// the host and writes a record of each. One captured graph serves every step: it reads the step number, and by it the
/// inputs, from device memory.
class StepRing {
 public:
  /// @param num_slots    maximum number of steps in a burst
  /// @param num_workers  number of workers whose losses are recorded
  StepRing(int num_slots, int num_workers, const Stream& stream);

  int num_slots() const { return static_cast<int>(inputs_.num_elements()); }
  /// Sets the inputs of the steps from `first_step` on, which runs next.
  /// @param inputs  at most num_slots() steps
  void prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Waits for the stream. @returns outcomes of `count` steps from `first_step` on, which must be the last that ran
  std::vector<StepOutcome> outcomes(std::uint64_t first_step, int count);

  /// Submits the kernels at the beginning and end of a step; see trainers/loop/cuda/step_ring.h.
  void submit_begin();
  /// @param losses  [num_workers]
  void submit_end(const WorkerLoss* losses, const std::uint32_t* skip);

  /// Device pointers of the running step, for work that is submitted between its beginning and end.
  DeviceStep step() const { return {.on_device = step_.data()}; }
  TransformCounts* counts() { return counts_.data(); }
  StepScalars update_scalars(const std::uint32_t* skip) const {
    return {.rate = input_.data()->rates.data(), .skip = skip};
  }
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
