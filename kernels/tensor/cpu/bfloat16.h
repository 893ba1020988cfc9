// Widening of bfloat16 to float32, single-threaded on one range of an array.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

void decode_bfloat16(const std::uint16_t* values, float* out, std::int64_t count);

}  // namespace terngrad::cpu
