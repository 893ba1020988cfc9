// Widening of bfloat16, one thread's share of an array.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

void decode_bfloat16(const std::uint16_t* values, float* out, std::int64_t count);

}  // namespace terngrad::cpu
