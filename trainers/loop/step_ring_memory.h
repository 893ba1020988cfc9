// StepRingMemory: the device memory of a StepRing.
#pragma once

#include <cstdint>

#include "kernels/optimizer/optimizer.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad::cuda {

/// Inputs of a step, computed by the host.
struct StepInput {
  UpdateRates rates = {};  // of the optimizer's update (Optimizer::rates)
  float ema_decay = 0;     // decay of the moving averages
};

/// Result of a step for one worker: WorkerLoss without padding.
struct WorkerRecord {
  double loss = 0;
  std::int64_t num_correct = 0;
};

/// Other results of a step, summed over the workers of one GPU.
struct StepRecord {
  TransformCounts counts;
  std::uint32_t skipped = 0;  // not 0: no update was applied
  std::uint32_t reserved = 0;
};

/// Device memory of a ring of steps: step s has slot s % num_slots.
struct StepRingMemory {
  std::uint64_t* step = nullptr;      // [1] number of the running step
  StepInput* input = nullptr;         // [1] of the running step
  TransformCounts* counts = nullptr;  // [1] of the running step
  const StepInput* inputs = nullptr;  // [num_slots]
  StepRecord* records = nullptr;      // [num_slots]
  WorkerRecord* workers = nullptr;    // [num_slots][num_workers]
  std::uint64_t num_slots = 1;
  int num_workers = 1;
};

}  // namespace terngrad::cuda
