// Element-wise loops of error feedback and momentum, one thread's share of them.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// out[i] = fl(fl(decay * state[i]) + fl(weight * gradient[i])).
void compensate(float decay, const float* state, float weight, const float* gradient, float* out, std::int64_t count);
/// out[i] = fl(a[i] - b[i]); out may be a or b.
void subtract(const float* a, const float* b, float* out, std::int64_t count);

}  // namespace terngrad::cpu
