// How great a mean may be that is to be multiplied afterwards.
#pragma once

#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// The largest number of float32 whose product with `factor` is finite in float32; the largest of all for factors of
/// 1 and less.
/// @throws InvalidArgument unless factor is finite and above 0
float max_mean(float factor);

/// Whether every value is a number from -max to max.
/// @throws NotSupported on a GPU's stream
bool are_within(std::span<const float> values, float max, Stream& stream);

}  // namespace terngrad
