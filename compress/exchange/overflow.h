// Overflow checks for a mean that will be multiplied by a factor.
#pragma once

#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Largest float32 whose product with `factor` is finite in float32; the largest finite float32 if factor <= 1.
/// @throws InvalidArgument unless factor is finite and above 0
float max_mean(float factor);

/// True if every value is a number in [-max, max].
/// @throws NotSupported on a GPU's stream
bool are_within(std::span<const float> values, float max, Stream& stream);

}  // namespace terngrad
