// Kernels at the beginning and end of a training step on a GPU.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "trainers/loop/step_ring_memory.h"

namespace terngrad::cuda {

/// Copies the step's input from its slot to ring.input and zeroes the counts.
void begin_step(const StepRingMemory& ring, const Stream& stream);
/// Writes the step's records to its slot and increments the step number.
/// @param losses  [ring.num_workers]
/// @param skip    [1]
void end_step(const StepRingMemory& ring, const WorkerLoss* losses, const std::uint32_t* skip, const Stream& stream);

/// to[i] = from[i] if *condition is not 0.
void copy_if(const std::uint32_t* condition, const float* from, float* to, std::int64_t count, const Stream& stream);

}  // namespace terngrad::cuda
