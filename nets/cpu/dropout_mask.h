// Arithmetic of dropout: draws, comparison, scaling.
#pragma once

#include <cstdint>

#include "kernels/random/philox.h"

namespace terngrad::cpu {

/// output[i] = draw_uniform(key, first_draw + i) < keep_prob ? fl(input[i] * fl(1 / keep_prob)) : 0, for i in [0,
/// count). Bit-equal on every SIMD target. The backward pass recomputes draws instead of storing them, which is cheap
/// compared to a fully connected layer.
/// @param first_draw  a multiple of 4 (start of a Philox block)
/// @param keep_prob   in (0, 1)
/// @param output      may be `input`
void apply_dropout(const DrawKey& key, std::uint64_t first_draw, float keep_prob, const float* input,
                   std::int64_t count, float* output);

}  // namespace terngrad::cpu
