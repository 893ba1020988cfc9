// Element-wise checks and changes of a gradient.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"

namespace terngrad {

/// Whether no element is NaN or infinite.
bool all_finite(std::span<const float> values, Stream& stream);

/// Replaces NaN and infinities by +0; all other elements keep their bits. @returns how many were replaced
std::int64_t zero_nonfinite(std::span<float> values, Stream& stream);

/// values[i] = fl(factor * values[i]). Bit-equal on every backend.
void scale(std::span<float> values, float factor, Stream& stream);

}  // namespace terngrad
