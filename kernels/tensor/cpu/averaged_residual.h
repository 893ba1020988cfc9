// Loops of averaged residuals, single-threaded on a part of a tensor that begins with a block.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// out[i] = fl(e[i] + gradient[i]), e of kernels/tensor/averaged_residual.h. @param is_reset  true: e counts as 0
void compensate_averaged(const float* state, bool is_reset, const float* gradient, float* out, std::int64_t count);
/// Same formula as terngrad::update_residual.
void update_residual(const float* encoded, const float* sent, bool is_reset, float decay, float weight, float* state,
                     std::int64_t count);

}  // namespace terngrad::cpu
