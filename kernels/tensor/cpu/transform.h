// Element-wise loops over a gradient, single-threaded on one range of it.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

bool all_finite(const float* values, std::int64_t count);
std::int64_t zero_nonfinite(float* values, std::int64_t count);
void scale(float* values, std::int64_t count, float factor);

}  // namespace terngrad::cpu
