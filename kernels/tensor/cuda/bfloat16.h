// Conversions to and from bfloat16 on a GPU, documented in kernels/tensor/bfloat16.h. Lengths must agree (unchecked).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, const Stream& stream);
void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, const Stream& stream);
void round_to_bfloat16(std::span<float> values, const Stream& stream);

}  // namespace terngrad::cuda
