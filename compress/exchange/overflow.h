// How great a mean may be that is to be multiplied afterwards.
#pragma once

#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// The greatest number of float32 whose product with `factor` is finite in float32; the greatest of all for factors of
/// 1 and less.
/// @throws InvalidArgument unless factor is finite and above 0
float greatest_mean(float factor);

/// Whether every value is a number from -greatest to greatest.
/// @throws NotSupported on a GPU's stream
bool are_within(std::span<const float> values, float greatest, Stream& stream);

}  // namespace terngrad
