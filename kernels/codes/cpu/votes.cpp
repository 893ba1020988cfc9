// Bit-sliced vote counting: plane p holds bit p of the counters of many elements.
#include "kernels/codes/votes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/votes.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/codes/cpu/bit_vectors-inl.h"

#include <algorithm>
#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DWord = hn::CappedTag<std::uint64_t, 8>;
using VWord = hn::Vec<DWord>;
inline constexpr std::size_t kWordLanes = hn::MaxLanes(DWord());
/// Prefetch distance in a payload: two chunks.
inline constexpr std::size_t kPrefetchBytes = 1024;

/// Compares counts with `half`, from the highest bit down: masks of counts above it and equal to it.
/// @param plane  plane p holds bit p of the counts
template <std::size_t kPlanes>
HWY_INLINE void CompareCounts(const VWord (&plane)[kPlanes], unsigned half, VWord& above, VWord& same) {
  const DWord d;
  above = hn::Zero(d);
  same = hn::Not(hn::Zero(d));
  for (std::size_t p = kPlanes; p-- > 0;) {
    if ((half >> p & 1u) != 0) {
      same = hn::And(same, plane[p]);
    } else {
      above = hn::Or(above, hn::And(same, plane[p]));
      same = hn::AndNot(plane[p], same);
    }
  }
}

/// @tparam kPlanes  number of bits of the number of workers, or more
template <std::size_t kPlanes>
HWY_INLINE void CountPlanes(std::span<const std::uint8_t* const> bits, std::size_t num_bytes,
                            std::uint64_t* HWY_RESTRICT negative, std::uint64_t* HWY_RESTRICT tied) {
  const DWord d;
  const auto num_workers = static_cast<unsigned>(bits.size());
  const std::size_t num_words = (num_bytes + 7) / 8;
  for (std::size_t word = 0; word < num_words; word += kWordLanes) {
    const std::size_t at = 8 * word;
    const std::size_t left = num_bytes - at;
    VWord plane[kPlanes];
    for (VWord& p : plane) p = hn::Zero(d);
    for (const std::uint8_t* payload : bits) {
      VWord carry = hn::Zero(d);
      if (left >= 8 * kWordLanes) {
        carry = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(payload + at));
        hwy::Prefetch(payload + at + kPrefetchBytes);
      } else {
        HWY_ALIGN std::uint64_t padded[kWordLanes] = {};
        std::memcpy(padded, payload + at, left);
        carry = hn::Load(d, padded);
      }
      HWY_UNROLL(16)
      for (std::size_t p = 0; p < kPlanes; ++p) {
        const VWord sum = hn::Xor(plane[p], carry);
        carry = hn::And(plane[p], carry);
        plane[p] = sum;
      }
    }
    VWord above;
    VWord same;
    CompareCounts(plane, num_workers / 2, above, same);
    hn::StoreU(above, d, negative + word);
    hn::StoreU(num_workers % 2 == 0 ? same : hn::Zero(d), d, tied + word);
  }
}

void CountVotes(std::span<const std::uint8_t* const> bits, std::int64_t num_bytes, std::uint64_t* negative,
                std::uint64_t* tied) {
  static_assert(kMaxSummedWorkers < 1 << 14, "14 planes count all workers");
  const auto bytes = static_cast<std::size_t>(num_bytes);
  const auto num_planes = static_cast<int>(std::bit_width(bits.size()));
  if (num_planes <= 2) return CountPlanes<2>(bits, bytes, negative, tied);
  if (num_planes <= 4) return CountPlanes<4>(bits, bytes, negative, tied);
  if (num_planes <= 8) return CountPlanes<8>(bits, bytes, negative, tied);
  CountPlanes<14>(bits, bytes, negative, tied);
}

template <bool kStream>
HWY_INLINE void ScaleTile(const std::uint64_t* HWY_RESTRICT negative, const std::uint64_t* HWY_RESTRICT tied,
                          std::size_t count, float factor, float* HWY_RESTRICT out) {
  const DFloat d;
  const auto plus = hn::Set(d, factor);
  const auto minus = hn::Set(d, Negated(factor));
  const auto zero = hn::Set(d, factor * 0.0f);
  for (std::size_t i = 0; i < count; i += 64) {
    const std::uint64_t is_minus = negative[i / 64];
    const std::uint64_t is_zero = tied[i / 64];
    StoreOfBits<kStream>(std::min<std::size_t>(64, count - i), out + i, [&](std::size_t at) HWY_ATTR {
      const auto vote = hn::IfThenElse(MaskOfBits(is_minus >> at), minus, plus);
      return hn::IfThenElse(MaskOfBits(is_zero >> at), zero, vote);
    });
  }
  if constexpr (kStream) hwy::FlushStream();
}

void ScaleVotes(const std::uint64_t* negative, const std::uint64_t* tied, std::int64_t first, std::int64_t count,
                float factor, float* out, Stores stores) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (kFloatLanes * sizeof(float)) == 0;
  const std::int64_t word = first / 64;
  const auto n = static_cast<std::size_t>(count);
  if (stores == Stores::kStreaming && aligned) {
    ScaleTile<true>(negative + word, tied + word, n, factor, out);
  } else {
    ScaleTile<false>(negative + word, tied + word, n, factor, out);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(CountVotes);
HWY_EXPORT(ScaleVotes);
void count_votes(std::span<const std::uint8_t* const> bits, std::int64_t num_bytes, std::uint64_t* negative,
                 std::uint64_t* tied) {
  HWY_DYNAMIC_DISPATCH(CountVotes)(bits, num_bytes, negative, tied);
}
void scale_votes(const std::uint64_t* negative, const std::uint64_t* tied, std::int64_t first, std::int64_t count,
                 float scale, float* out, Stores stores) {
  HWY_DYNAMIC_DISPATCH(ScaleVotes)(negative, tied, first, count, scale, out, stores);
}
}  // namespace terngrad::cpu
#endif
