// Finds the places of elements above a threshold.
#include "kernels/sparse/top_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sparse/cpu/top_k.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::int64_t PlacesAtLeast(const float* HWY_RESTRICT values, std::int64_t num_values, std::uint32_t threshold,
                           std::uint32_t first, std::uint32_t* HWY_RESTRICT places,
                           std::uint32_t* HWY_RESTRICT magnitudes) {
  // Magnitudes are below 2^31, so a signed comparison works, which every target has.
  const hn::CappedTag<std::int32_t, 16> d;
  const hn::RebindToUnsigned<decltype(d)> d_place;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(num_values);
  const auto* bits = reinterpret_cast<const std::int32_t*>(values);
  const auto v_below = hn::Set(d, static_cast<std::int32_t>(threshold) - 1);
  const auto v_magnitude = hn::Set(d, 0x7fffffff);
  const auto magnitude_at = [&](std::size_t at) HWY_ATTR { return hn::And(hn::LoadU(d, bits + at), v_magnitude); };
  const auto is_kept = [&](std::size_t at) HWY_ATTR { return hn::Gt(magnitude_at(at), v_below); };
  std::size_t found = 0;
  // Branch-free stores: with elements in random order branches would be mispredicted.
  const auto store = [&](std::size_t at, auto mask) HWY_ATTR {
    const auto place = hn::Iota(d_place, static_cast<std::uint32_t>(first + at));
    const auto magnitude = hn::BitCast(d_place, magnitude_at(at));
    hn::CompressStore(magnitude, hn::RebindMask(d_place, mask), d_place, magnitudes + found);
    found += hn::CompressStore(place, hn::RebindMask(d_place, mask), d_place, places + found);
  };
  std::size_t i = 0;
  // Skips four vectors at once if none of their elements is kept, which is common.
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto mask0 = is_kept(i);
    const auto mask1 = is_kept(i + lanes);
    const auto mask2 = is_kept(i + 2 * lanes);
    const auto mask3 = is_kept(i + 3 * lanes);
    if (hn::AllFalse(d, hn::Or(hn::Or(mask0, mask1), hn::Or(mask2, mask3)))) continue;
    store(i, mask0);
    store(i + lanes, mask1);
    store(i + 2 * lanes, mask2);
    store(i + 3 * lanes, mask3);
  }
  for (; i + lanes <= count; i += lanes) store(i, is_kept(i));
  for (; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu;
    if (magnitude < threshold) continue;
    magnitudes[found] = magnitude;
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
                             std::uint32_t* places, std::uint32_t* magnitudes) {
  return HWY_DYNAMIC_DISPATCH(PlacesAtLeast)(values, count, threshold, first, places, magnitudes);
}
}  // namespace terngrad::cpu
#endif
