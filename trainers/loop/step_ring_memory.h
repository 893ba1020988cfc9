// What host and GPU tell each other about steps, as it lies in device memory.
#pragma once

#include <cstdint>

#include "trainers/optim/transform_counts.h"

namespace terngrad::cuda {

/// What the host works out for a step before it runs.
struct StepInput {
  float rate = 0;       // of the optimizer's update
  float ema_decay = 0;  // of the moving averages
};

/// What a step gave one worker: WorkerLoss without padding.
struct WorkerRecord {
  double loss = 0;
  std::int64_t num_correct = 0;
};

/// What else a step gave, over the workers of one GPU.
struct StepRecord {
  TransformCounts counts;
  std::uint32_t skipped = 0;  // not 0: nothing was applied
  std::uint32_t reserved = 0;
};

/// Device memory of a ring of steps: step s has slot s % num_slots.
struct StepRingMemory {
  std::uint64_t* step = nullptr;      // [1] the step that runs
  StepInput* input = nullptr;         // [1] of that step
  TransformCounts* counts = nullptr;  // [1] of that step
  const StepInput* inputs = nullptr;  // [num_slots]
  StepRecord* records = nullptr;      // [num_slots]
  WorkerRecord* workers = nullptr;    // [num_slots][num_workers]
  std::uint64_t num_slots = 1;
  int num_workers = 1;
};

}  // namespace terngrad::cuda
