// Dropout on a GPU, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"

namespace terngrad::cuda {

/// Which draws a dropout layer takes: those of DrawKey{seed, step, first_worker + w, DrawPurpose::kDropout} for worker
/// w.
struct DropoutDraws {
  std::uint64_t seed = 0;
  DeviceStep step = {};
  std::uint32_t first_worker = 0;  // global number of worker 0
  std::uint64_t first_draw = 0;    // a multiple of 4, as first_dropout_draws (nets/net_plan.h) gives them
};

/// output[w, i] = draw_uniform(key of worker w, first_draw + i) < keep_prob ? fl(input[w, i] * fl(1 / keep_prob)) : 0,
/// for i < elements_per_worker: the bits of cpu::apply_dropout for each worker. Both passes use it. Pointers are device
/// memory; work is submitted to the stream, nothing is allocated or waited for.
/// @param keep_prob  in (0, 1)
/// @param output     [num_workers, elements_per_worker] as `input`, and may be it
/// @throws InvalidArgument if first_draw is no multiple of 4; DeviceError
void apply_dropout(const DropoutDraws& draws, float keep_prob, const float* input, std::int64_t elements_per_worker,
                   int num_workers, float* output, const Stream& stream);

}  // namespace terngrad::cuda
