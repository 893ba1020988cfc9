// Places of elements above a threshold.
#include "kernels/codes/top_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/top_k.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/highway.h>

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::int64_t PlacesAtLeast(const float* HWY_RESTRICT values, std::int64_t num_values, std::uint32_t threshold,
                           std::uint32_t first, std::uint32_t* HWY_RESTRICT places) {
  // Magnitudes are below 2^31, so they compare as signed numbers, which every target can.
  const hn::CappedTag<std::int32_t, 16> d;
  const hn::RebindToUnsigned<decltype(d)> d_place;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(num_values);
  const auto* bits = reinterpret_cast<const std::int32_t*>(values);
  const auto v_below = hn::Set(d, static_cast<std::int32_t>(threshold) - 1);
  const auto v_magnitude = hn::Set(d, 0x7fffffff);
  std::size_t found = 0;
  std::size_t i = 0;
  // Stored without a branch, which elements of no order would make mispredicted.
  for (; i + lanes <= count; i += lanes) {
    const auto is_kept = hn::Gt(hn::And(hn::LoadU(d, bits + i), v_magnitude), v_below);
    const auto place = hn::Iota(d_place, static_cast<std::uint32_t>(first + i));
    found += hn::CompressStore(place, hn::RebindMask(d_place, is_kept), d_place, places + found);
  }
  for (; i < count; ++i) {
    if ((std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu) < threshold) continue;
    places[found++] = static_cast<std::uint32_t>(first + i);
  }
  return static_cast<std::int64_t>(found);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(PlacesAtLeast);
std::int64_t places_at_least(const float* values, std::int64_t count, std::uint32_t threshold, std::uint32_t first,
                             std::uint32_t* places) {
  return HWY_DYNAMIC_DISPATCH(PlacesAtLeast)(values, count, threshold, first, places);
}
}  // namespace terngrad::cpu
#endif
