#include "kernels/tensor/cpu/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tensor/cpu/float16.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DFloat = hn::CappedTag<float, 16>;
using DOne = hn::CappedTag<float, 1>;

constexpr std::uint32_t kHalf = 0x3f000000u;  // bit pattern of 0.5

/// to_float16 of kernels/tensor/float16.h, step by step; the result is in the lower half of each lane. Highway's own
/// conversion is not used: it treats NaN and infinity differently on targets without the instruction. Magnitudes are
/// below 2^31, so comparisons may be signed, which every target has.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> ToFloat16(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto clamped = hn::Min(magnitude, hn::Set(du, 0x47800000u));
  const auto odd = hn::And(hn::ShiftRight<13>(clamped), hn::Set(du, 1u));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(clamped, odd), hn::Set(du, 0xfffu - (112u << 23))));
  const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, kHalf));
  const auto nan = hn::Or(hn::Set(du, 0x7e00u), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffu)));
  const auto is_subnormal = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x38800000));
  const auto is_nan = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7f800000));
  const auto number = hn::IfThenElse(is_subnormal, hn::BitCast(di, subnormal), hn::BitCast(di, normal));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  return hn::Or(hn::IfThenElse(is_nan, hn::BitCast(di, nan), number), hn::BitCast(di, sign));
}

/// from_float16 of kernels/tensor/float16.h, vectorized.
template <class D>
HWY_INLINE hn::Vec<D> FromFloat16(D d, hn::Vec<hn::RebindToSigned<D>> value) {
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::And(value, hn::Set(di, 0x7fff));
  const auto fraction = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(fraction, hn::Set(di, 112 << 23));
  const auto shifted = hn::BitCast(d, hn::Or(magnitude, hn::Set(di, static_cast<std::int32_t>(kHalf))));
  const auto subnormal = hn::BitCast(di, hn::Sub(shifted, hn::Set(d, 0.5f)));
  const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(di, 0x7c00)), hn::Set(di, 0x00400000));
  const auto special = hn::Or(hn::Or(fraction, hn::Set(di, 0x7f800000)), quiet);
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x0400)), subnormal, normal);
  const auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x7c00)), finite, special);
  const auto sign = hn::ShiftLeft<16>(hn::And(value, hn::Set(di, 0x8000)));
  return hn::BitCast(d, hn::Or(result, sign));
}

/// Calls step(tag, i) for whole vectors, then with a one-lane tag for the rest.
template <class Step>
HWY_INLINE void ForEach(std::int64_t count, const Step& step) {
  const DFloat d;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) step(d, i);
  for (; i < n; ++i) step(DOne(), i);
}

void EncodeFloat16(const float* HWY_RESTRICT values, std::uint16_t* HWY_RESTRICT out, std::int64_t count) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint16_t, decltype(d)> d16;
    hn::StoreU(hn::DemoteTo(d16, ToFloat16(d, hn::LoadU(d, values + i))), d16, out + i);
  });
}

void DecodeFloat16(const std::uint16_t* HWY_RESTRICT values, float* HWY_RESTRICT out, std::int64_t count) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint16_t, decltype(d)> d16;
    const hn::RebindToSigned<decltype(d)> di;
    hn::StoreU(FromFloat16(d, hn::PromoteTo(di, hn::LoadU(d16, values + i))), d, out + i);
  });
}

void RoundToFloat16(float* HWY_RESTRICT values, std::int64_t count) {
  ForEach(count, [=](auto d, std::size_t i)
                     HWY_ATTR { hn::StoreU(FromFloat16(d, ToFloat16(d, hn::LoadU(d, values + i))), d, values + i); });
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(EncodeFloat16);
HWY_EXPORT(DecodeFloat16);
HWY_EXPORT(RoundToFloat16);

void encode_float16(const float* values, std::uint16_t* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(EncodeFloat16)(values, out, count);
}
void decode_float16(const std::uint16_t* values, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(DecodeFloat16)(values, out, count);
}
void round_to_float16(float* values, std::int64_t count) { HWY_DYNAMIC_DISPATCH(RoundToFloat16)(values, count); }
}  // namespace terngrad::cpu
#endif
