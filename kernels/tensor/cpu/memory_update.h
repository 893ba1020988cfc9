// Element-wise loops of error feedback, momentum, DGC and EF21, single-threaded on one range of a tensor.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// out[i] = fl(fl(decay * state[i]) + fl(weight * gradient[i])).
void compensate(float decay, const float* state, float weight, const float* gradient, float* out, std::int64_t count);
/// Same formula as terngrad::accumulate: next[i] = fl(fl(momentum * velocity[i]) + gradient[i]); out[i] =
/// fl(residual[i] + next[i]), or with nesterov fl(residual[i] + fl(fl(momentum * next[i]) + gradient[i])).
void accumulate(float momentum, bool nesterov, const float* residual, const float* velocity, const float* gradient,
                float* next, float* out, std::int64_t count);
/// out[i] = a[i] where b[i] is 0, else +0; out may be a or b.
void mask(const float* a, const float* b, float* out, std::int64_t count);
/// out[i] = fl(a[i] + b[i]); out may be a or b.
void add(const float* a, const float* b, float* out, std::int64_t count);
/// out[i] = fl(a[i] - b[i]); out may be a or b.
void subtract(const float* a, const float* b, float* out, std::int64_t count);

}  // namespace terngrad::cpu
