// Codes with one byte each: packing to 4 bits, unpacking, scaling and adding.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// Packs the low 4 bits of each byte, two per output byte, low bits first. @param count  a multiple of 8
void pack_nibbles(const std::uint8_t* codes, std::int64_t count, std::uint8_t* bytes);
/// The inverse of pack_nibbles. @param codes  [2 * num_bytes] out
void unpack_nibbles(const std::uint8_t* bytes, std::int64_t num_bytes, std::uint8_t* codes);
/// Number of codes that pack_bits packs together, into as many bytes as a code has bits.
inline constexpr std::int64_t kPackedCodes = 8;
/// Packs the low 2 or 3 bits of each byte into a string of bits, low bits first.
/// @param codes  [count rounded up to a multiple of 8], zeros from `count` on
/// @param bytes  [bits * ceil(count / 8)] out
void pack_bits(const std::uint8_t* codes, std::int64_t count, int bits, std::uint8_t* bytes);
/// The inverse of pack_bits. @param codes  [count rounded up to a multiple of 8] out
void unpack_bits(const std::uint8_t* bytes, std::int64_t count, int bits, std::uint8_t* codes);
/// out[i] = fl(unit * float(codes[i] - bias)).
void scale_codes(const std::uint8_t* codes, std::int64_t count, int bias, float unit, float* out);
/// sums[i] += codes[i]; the caller excludes overflow.
void add_codes(const std::uint8_t* codes, std::int64_t count, std::uint16_t* sums);

}  // namespace terngrad::cpu
