// Dropout on a GPU, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"

namespace terngrad::cuda {

/// Draws of a dropout layer: worker w uses DrawKey{seed, step, first_worker + w, DrawPurpose::kDropout}.
struct DropoutDraws {
  std::uint64_t seed = 0;
  DeviceStep step = {};
  std::uint32_t first_worker = 0;  // global number of worker 0
  std::uint64_t first_draw = 0;    // from first_dropout_draws (nets/net_plan.h), a multiple of 4
};

/// output[w, i] = draw_uniform(key of worker w, first_draw + i) < keep_prob ? fl(input[w, i] * fl(1 / keep_prob)) : 0,
/// for i < elements_per_worker: bit-identical to cpu::apply_dropout per worker, for both passes. Pointers are device
/// memory. Submits work to the stream and neither allocates nor waits.
/// @param keep_prob  in (0, 1)
/// @param output     [num_workers, elements_per_worker], as `input`; may be `input`
/// @throws InvalidArgument if first_draw is not a multiple of 4; DeviceError
void apply_dropout(const DropoutDraws& draws, float keep_prob, const float* input, std::int64_t elements_per_worker,
                   int num_workers, float* output, const Stream& stream);

}  // namespace terngrad::cuda
