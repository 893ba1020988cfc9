#include "kernels/tensor/cpu/bfloat16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tensor/cpu/bfloat16.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/tensor/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// from_bfloat16 of kernels/tensor/bfloat16.h in integer operations: a floating-point operation could make a NaN quiet.
void DecodeBfloat16(const std::uint16_t* HWY_RESTRICT values, float* HWY_RESTRICT out, std::int64_t count) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const hn::RebindToFloat<decltype(d)> d_float;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d16, values + i)));
    hn::StoreU(hn::BitCast(d_float, bits), d_float, out + i);
  }
  for (; i < n; ++i) out[i] = from_bfloat16(values[i]);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(DecodeBfloat16);

void decode_bfloat16(const std::uint16_t* values, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(DecodeBfloat16)(values, out, count);
}
}  // namespace terngrad::cpu
#endif
