#include "kernels/statistics/side_scalers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/statistics/cpu/side_scalers.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<std::uint32_t>;

/// The sign bit, which is above all magnitude bits: the initial value for the negative side.
constexpr std::uint32_t kSign = 0x80000000u;

/// As signed integers, positive elements order by magnitude and exceed all negative ones; as unsigned integers,
/// negative elements order by magnitude and exceed all positive ones.
HWY_INLINE SideMax Joined(std::int32_t positive, std::uint32_t negative) {
  return {static_cast<std::uint32_t>(std::max(positive, 0)), std::max(negative, kSign) & ~kSign};
}

SideMax ChunkSideMax(const float* HWY_RESTRICT values, std::int64_t num_values) {
  const D d;
  const hn::RebindToSigned<D> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(num_values);
  auto positive = hn::Zero(di);
  auto negative = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(values + i));
    positive = hn::Max(positive, hn::BitCast(di, bits));
    negative = hn::Max(negative, bits);
  }
  std::int32_t most_signed = hn::GetLane(hn::MaxOfLanes(di, positive));
  std::uint32_t most = hn::GetLane(hn::MaxOfLanes(d, negative));
  for (; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    most_signed = std::max(most_signed, static_cast<std::int32_t>(bits));
    most = std::max(most, bits);
  }
  return Joined(most_signed, most);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(ChunkSideMax);
SideMax chunk_side_max(const float* values, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ChunkSideMax)(values, count);
}
}  // namespace terngrad::cpu
#endif
