// StepRing: what host and GPU tell each other about the steps of a burst.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/device_step.h"
#include "kernels/optimizer.h"
#include "trainers/cuda/step_ring.h"

namespace terngrad {

/// The host works out the inputs of the next steps, the GPU runs them without the host and leaves a record of each. The
/// same captured work serves every step: it reads its number, and by that its inputs, in device memory.
class StepRing {
 public:
  /// @param num_slots  most steps of a burst
  StepRing(int num_slots, const Stream& stream);

  int num_slots() const { return static_cast<int>(inputs_.num_elements()); }
  /// Says that step `first_step` runs next, with these inputs; the steps after it follow.
  /// @param inputs  at most num_slots()
  void prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Waits for the stream. @returns the records of `count` steps from `first_step` on, which were the last to run
  std::vector<cuda::StepRecord> records(std::uint64_t first_step, int count);

  /// Submits the beginning and the end of a step; see trainers/cuda/step_ring.h.
  void submit_begin();
  void submit_end(const WorkerLoss* losses, int num_workers, const std::uint32_t* skip);

  /// Of the step that runs, for what is submitted between its beginning and its end.
  DeviceStep step() const { return {.on_device = step_.data()}; }
  cuda::StepCounters* counters() { return counters_.data(); }
  StepScalars update_scalars(const std::uint32_t* skip) const { return {.rate = &input_.data()->rate, .skip = skip}; }
  StepScalars average_scalars(const std::uint32_t* skip) const {
    return {.rate = &input_.data()->ema_decay, .skip = skip};
  }

 private:
  cuda::StepRingMemory memory();
  Stream stream_;
  Buffer<std::uint64_t> step_;
  Buffer<cuda::StepInput> input_;
  Buffer<cuda::StepCounters> counters_;
  Buffer<cuda::StepInput> inputs_;
  Buffer<cuda::StepRecord> records_;
};

}  // namespace terngrad
