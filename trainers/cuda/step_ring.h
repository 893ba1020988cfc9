// Kernels at the beginning and end of a training step on a GPU.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "nets/net.h"

namespace terngrad::cuda {

/// What the host works out for a step before it runs.
struct StepInput {
  float rate = 0;       // of the optimizer's update
  float ema_decay = 0;  // of the moving averages
};

/// What transforms changed in a step, added up in device memory.
struct StepCounters {
  std::int64_t zeroed_elements = 0;
  std::int64_t clipped_gradients = 0;
};

/// What a step gave one worker: WorkerLoss without padding.
struct WorkerRecord {
  double loss = 0;
  std::int64_t num_correct = 0;
};

/// What else a step gave, over the workers of one GPU.
struct StepRecord {
  StepCounters counters;
  std::uint32_t skipped = 0;  // not 0: nothing was applied
  std::uint32_t reserved = 0;
};

/// Device memory of a ring of steps: step s has slot s % num_slots.
struct StepRingMemory {
  std::uint64_t* step = nullptr;      // [1] the step that runs
  StepInput* input = nullptr;         // [1] of that step
  StepCounters* counters = nullptr;   // [1] of that step
  const StepInput* inputs = nullptr;  // [num_slots]
  StepRecord* records = nullptr;      // [num_slots]
  WorkerRecord* workers = nullptr;    // [num_slots][num_workers]
  std::uint64_t num_slots = 1;
  int num_workers = 1;
};

/// Takes the step's input out of its slot and sets its counters to zero.
void begin_step(const StepRingMemory& ring, const Stream& stream);
/// Writes the step's records to its slot, and makes the next step the one that runs.
/// @param losses  [ring.num_workers]
/// @param skip    [1]
void end_step(const StepRingMemory& ring, const WorkerLoss* losses, const std::uint32_t* skip, const Stream& stream);

/// to[i] = from[i] if *condition is not 0.
void copy_if(const std::uint32_t* condition, const float* from, float* to, std::int64_t count, const Stream& stream);

}  // namespace terngrad::cuda
