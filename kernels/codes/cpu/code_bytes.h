// Codes as a byte each: packing them to 4 bits and back, and what they stand for.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// The low 4 bits of each byte, two to a byte, low bits first. @param count  a multiple of 8
void pack_nibbles(const std::uint8_t* codes, std::int64_t count, std::uint8_t* bytes);
/// The inverse. @param codes  [2 * num_bytes] out
void unpack_nibbles(const std::uint8_t* bytes, std::int64_t num_bytes, std::uint8_t* codes);
/// out[i] = fl(unit * float(codes[i] - bias)).
void scale_codes(const std::uint8_t* codes, std::int64_t count, int bias, float unit, float* out);
/// sums[i] += codes[i]; the sums must fit.
void add_codes(const std::uint8_t* codes, std::int64_t count, std::uint16_t* sums);

}  // namespace terngrad::cpu
