#include "kernels/codes/cpu/code_bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/code_bytes.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DFloat = hn::CappedTag<float, 16>;
inline constexpr std::size_t kFloatLanes = hn::MaxLanes(DFloat());

void PackNibbles(const std::uint8_t* codes, std::int64_t count, std::uint8_t* bytes) {
  const auto num_bytes = static_cast<std::size_t>(count) / 2;
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::int16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto low = hn::Set(d, 0x000f);
  const auto high = hn::Set(d, 0x00f0);
  constexpr std::size_t kLanes = hn::MaxLanes(decltype(d)());
  for (; i + kLanes <= num_bytes; i += kLanes) {
    const auto pair = hn::LoadU(d, reinterpret_cast<const std::int16_t*>(codes + 2 * i));
    const auto byte = hn::Or(hn::And(pair, low), hn::And(hn::ShiftRight<4>(pair), high));
    hn::StoreU(hn::DemoteTo(d8, byte), d8, bytes + i);
  }
#endif
  for (; i < num_bytes; ++i) bytes[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

void UnpackNibbles(const std::uint8_t* bytes, std::int64_t num_bytes, std::uint8_t* codes) {
  const auto n = static_cast<std::size_t>(num_bytes);
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::int16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto low = hn::Set(d, 0x000f);
  const auto high = hn::Set(d, 0x0f00);
  constexpr std::size_t kLanes = hn::MaxLanes(decltype(d)());
  for (; i + kLanes <= n; i += kLanes) {
    const auto byte = hn::PromoteTo(d, hn::LoadU(d8, bytes + i));
    const auto pair = hn::Or(hn::And(byte, low), hn::And(hn::ShiftLeft<4>(byte), high));
    hn::StoreU(pair, d, reinterpret_cast<std::int16_t*>(codes + 2 * i));
  }
#endif
  for (; i < n; ++i) {
    codes[2 * i] = bytes[i] & 15;
    codes[2 * i + 1] = bytes[i] >> 4;
  }
}

void ScaleCodes(const std::uint8_t* codes, std::int64_t count, int bias, float unit, float* out) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::uint8_t, DFloat> d8;
  const auto n = static_cast<std::size_t>(count);
  const auto v_bias = hn::Set(d_int, bias);
  const auto v_unit = hn::Set(d, unit);
  std::size_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) {
    const auto code = hn::Sub(hn::PromoteTo(d_int, hn::LoadU(d8, codes + i)), v_bias);
    hn::StoreU(hn::Mul(v_unit, hn::ConvertTo(d, code)), d, out + i);
  }
  for (; i < n; ++i) out[i] = unit * static_cast<float>(codes[i] - bias);
}

void AddCodes(const std::uint8_t* codes, std::int64_t count, std::uint16_t* sums) {
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto n = static_cast<std::size_t>(count);
  constexpr std::size_t kLanes = hn::MaxLanes(decltype(d)());
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::PromoteTo(d, hn::LoadU(d8, codes + i))), d, sums + i);
  }
  for (; i < n; ++i) sums[i] = static_cast<std::uint16_t>(sums[i] + codes[i]);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
namespace {

/// A pattern of `ones` ones at the start of every `width` bits.
constexpr std::uint64_t repeated(unsigned ones, unsigned width) {
  std::uint64_t pattern = 0;
  for (unsigned at = 0; at < 64; at += width) pattern |= ((std::uint64_t{1} << ones) - 1) << at;
  return pattern;
}

/// Eight codes with one byte each, and the same in 8 * kBits bits: neighbours are joined to pairs, pairs to fours, and
/// fours to eight.
template <unsigned kBits>
std::uint64_t packed(std::uint64_t codes) {
  codes = (codes | codes >> (8 - kBits)) & repeated(2 * kBits, 16);
  codes = (codes | codes >> (16 - 2 * kBits)) & repeated(4 * kBits, 32);
  return (codes | codes >> (32 - 4 * kBits)) & repeated(8 * kBits, 64);
}
template <unsigned kBits>
std::uint64_t unpacked(std::uint64_t bits) {
  bits = (bits | bits << (32 - 4 * kBits)) & repeated(4 * kBits, 32);
  bits = (bits | bits << (16 - 2 * kBits)) & repeated(2 * kBits, 16);
  return (bits | bits << (8 - kBits)) & repeated(kBits, 8);
}

template <unsigned kBits>
void pack_bits_of(const std::uint8_t* codes, std::int64_t count, std::uint8_t* bytes) {
  for (std::int64_t i = 0; i < count; i += kPackedCodes, bytes += kBits) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + i, sizeof(eight));
    eight = packed<kBits>(eight);
    std::memcpy(bytes, &eight, kBits);
  }
}
template <unsigned kBits>
void unpack_bits_of(const std::uint8_t* bytes, std::int64_t count, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; i += kPackedCodes, bytes += kBits) {
    std::uint64_t eight = 0;
    for (unsigned byte = 0; byte < kBits; ++byte) eight |= std::uint64_t{bytes[byte]} << 8 * byte;
    eight = unpacked<kBits>(eight);
    std::memcpy(codes + i, &eight, sizeof(eight));
  }
}

}  // namespace

void pack_bits(const std::uint8_t* codes, std::int64_t count, int bits, std::uint8_t* bytes) {
  (bits == 2 ? pack_bits_of<2> : pack_bits_of<3>)(codes, count, bytes);
}
void unpack_bits(const std::uint8_t* bytes, std::int64_t count, int bits, std::uint8_t* codes) {
  (bits == 2 ? unpack_bits_of<2> : unpack_bits_of<3>)(bytes, count, codes);
}

HWY_EXPORT(PackNibbles);
HWY_EXPORT(UnpackNibbles);
HWY_EXPORT(ScaleCodes);
HWY_EXPORT(AddCodes);

void pack_nibbles(const std::uint8_t* codes, std::int64_t count, std::uint8_t* bytes) {
  HWY_DYNAMIC_DISPATCH(PackNibbles)(codes, count, bytes);
}
void unpack_nibbles(const std::uint8_t* bytes, std::int64_t num_bytes, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(UnpackNibbles)(bytes, num_bytes, codes);
}
void scale_codes(const std::uint8_t* codes, std::int64_t count, int bias, float unit, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleCodes)(codes, count, bias, unit, out);
}
void add_codes(const std::uint8_t* codes, std::int64_t count, std::uint16_t* sums) {
  HWY_DYNAMIC_DISPATCH(AddCodes)(codes, count, sums);
}
}  // namespace terngrad::cpu
#endif
