// Checks and transformations of a gradient on a GPU, documented in kernels/tensor/transform.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

void find_nonfinite(std::span<const float> values, std::uint32_t* found, const Stream& stream);
void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, const Stream& stream);
/// @param factor_on_device  [1] in device memory, replaces `factor`; or null
void scale(std::span<float> values, float factor, const float* factor_on_device, const Stream& stream);
void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, const Stream& stream);

}  // namespace terngrad::cuda
