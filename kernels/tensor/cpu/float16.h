// Conversions to and from float16, single-threaded on one range of an array.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

void encode_float16(const float* values, std::uint16_t* out, std::int64_t count);
void decode_float16(const std::uint16_t* values, float* out, std::int64_t count);
void round_to_float16(float* values, std::int64_t count);

}  // namespace terngrad::cpu
