// Nearest levels of a codebook.
#include "kernels/statistics/codebook_scalers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/statistics/cpu/codebook_scalers.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// @tparam kMagnitudes  of the codebook
template <int kMagnitudes, bool kProducts>
HWY_INLINE void NearestLevelsOf(const float* HWY_RESTRICT values, std::size_t count, const Codebook& codebook,
                                float unit, float* HWY_RESTRICT out) {
  const auto pass = [&](auto d, std::size_t i) HWY_ATTR {
    const auto magnitude = hn::Abs(hn::LoadU(d, values + i));
    auto level = hn::Set(d, codebook.values[0]);
    HWY_UNROLL(8)
    for (int k = 1; k < kMagnitudes; ++k) {
      const auto threshold = hn::Set(d, codebook.thresholds[k - 1] * unit);
      level = hn::IfThenElse(hn::Ge(magnitude, threshold), hn::Set(d, codebook.values[k]), level);
    }
    hn::StoreU(kProducts ? hn::Mul(magnitude, level) : level, d, out + i);
  };
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> d_one;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) pass(d, i);
  for (; i < count; ++i) pass(d_one, i);
}

template <bool kProducts>
void NearestLevelsAs(const float* values, std::size_t count, const Codebook& codebook, float unit, float* out) {
  switch (codebook.num_magnitudes) {
    case 1:
      return NearestLevelsOf<1, kProducts>(values, count, codebook, unit, out);
    case 2:
      return NearestLevelsOf<2, kProducts>(values, count, codebook, unit, out);
    case 4:
      return NearestLevelsOf<4, kProducts>(values, count, codebook, unit, out);
    default:
      return NearestLevelsOf<8, kProducts>(values, count, codebook, unit, out);
  }
}

void NearestLevels(const float* values, std::int64_t count, const Codebook& codebook, float unit, bool is_product,
                   float* out) {
  (is_product ? NearestLevelsAs<true> : NearestLevelsAs<false>)(values, static_cast<std::size_t>(count), codebook, unit,
                                                                out);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(NearestLevels);
void nearest_levels(const float* values, std::int64_t count, const Codebook& codebook, float unit, bool is_product,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(NearestLevels)(values, count, codebook, unit, is_product, out);
}
}  // namespace terngrad::cpu
#endif
