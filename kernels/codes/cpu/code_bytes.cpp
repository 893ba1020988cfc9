#include "kernels/codes/cpu/code_bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/code_bytes.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <cstddef>

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
