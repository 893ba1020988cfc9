#include "kernels/tensor/cpu/transform.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tensor/cpu/transform.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DFloat = hn::CappedTag<float, 16>;
using DOne = hn::CappedTag<float, 1>;

bool AllFinite(const float* HWY_RESTRICT values, std::int64_t count) {
  const DFloat d;
  const DOne one;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    if (!hn::AllTrue(d, hn::IsFinite(hn::LoadU(d, values + i)))) return false;
  }
  for (; i < n; ++i) {
    if (!hn::AllTrue(one, hn::IsFinite(hn::LoadU(one, values + i)))) return false;
  }
  return true;
}

/// Writes nothing if all elements are finite, which is the usual case: the pass then only reads.
template <class D>
HWY_INLINE std::size_t ZeroVector(D d, float* values) {
  const auto value = hn::LoadU(d, values);
  const auto finite = hn::IsFinite(value);
  if (HWY_LIKELY(hn::AllTrue(d, finite))) return 0;
  hn::StoreU(hn::IfThenElseZero(finite, value), d, values);
  return hn::Lanes(d) - hn::CountTrue(d, finite);
}

std::int64_t ZeroNonfinite(float* HWY_RESTRICT values, std::int64_t count) {
  const DFloat d;
  const DOne one;
  const auto n = static_cast<std::size_t>(count);
  std::size_t num_replaced = 0;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) num_replaced += ZeroVector(d, values + i);
  for (; i < n; ++i) num_replaced += ZeroVector(one, values + i);
  return static_cast<std::int64_t>(num_replaced);
}

void Scale(float* HWY_RESTRICT values, std::int64_t count, float factor) {
  const DFloat d;
  const DOne one;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, values + i)), d, values + i);
  }
  for (; i < n; ++i) hn::StoreU(hn::Mul(hn::Set(one, factor), hn::LoadU(one, values + i)), one, values + i);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(AllFinite);
HWY_EXPORT(ZeroNonfinite);
HWY_EXPORT(Scale);

bool all_finite(const float* values, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(AllFinite)(values, count); }
std::int64_t zero_nonfinite(float* values, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ZeroNonfinite)(values, count);
}
void scale(float* values, std::int64_t count, float factor) { HWY_DYNAMIC_DISPATCH(Scale)(values, count, factor); }
}  // namespace terngrad::cpu
#endif
