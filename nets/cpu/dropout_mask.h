// The arithmetic of dropout: draws, comparison, scaling.
#pragma once

#include <cstdint>

#include "kernels/random/philox.h"

namespace terngrad::cpu {

/// output[i] = draw_uniform(key, first_draw + i) < keep_prob ? fl(input[i] * fl(1 / keep_prob)) : 0, for i in [0,
/// count). Bit-equal on every SIMD target. Draws are made again in the backward pass rather than kept: next to a fully
/// connected layer they cost nothing.
/// @param first_draw  a multiple of 4: where a block of draws begins
/// @param keep_prob   in (0, 1)
/// @param output      may be `input`
void apply_dropout(const DrawKey& key, std::uint64_t first_draw, float keep_prob, const float* input,
                   std::int64_t count, float* output);

}  // namespace terngrad::cpu
