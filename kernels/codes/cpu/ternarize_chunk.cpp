// Ternarization of one chunk: draws, comparison, bit planes.
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/ternarize_chunk.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/codes/cpu/block_runs.h"
#include "kernels/codes/cpu/draws-inl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Returns true if an element that ties with its draw (or is at full scale) is nonzero.
HWY_INLINE bool ResolveTie(float magnitude, float scaler, float inverse, const DrawKey& refine_key,
                           std::uint64_t draw_index) {
  if (magnitude >= scaler) return true;
  const float t = magnitude * inverse * 65536.0f;
  if (t >= 65536.0f) return true;  // rounded up to full scale: above every draw
  const float fraction = t - std::floor(t);
  return static_cast<float>(draw32(refine_key, draw_index) >> 8) < fraction * 0x1p24f;
}

/// Sign bits of the lanes: lane i in bit i.
HWY_INLINE std::uint64_t SignBits(hn::Vec<DFloat> value) {
#if HWY_TARGET == HWY_SCALAR
  return std::signbit(hn::GetLane(value)) ? 1 : 0;
#else
  return MaskBits(
      hn::MaskFromVec(hn::BitCast(DFloat(), hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<DFloat>(), value)))));
#endif
}

/// A run of elements with one scaler; count is a multiple of 64, or the run ends the chunk.
struct Run {
  const float* gradient;
  std::size_t count;
  float scaler;
  float clip;                // infinity: no clipping
  std::uint64_t draw_index;  // draw index of the first element
  const std::uint16_t* draws;
};

/// Returns the mask of the elements among `tied` whose refinement bits make them nonzero.
HWY_INLINE std::uint64_t ResolveTies(const Run& run, const DrawKey& refine_key, std::size_t begin, const float* g,
                                     std::uint64_t tied) {
  const float inverse = 1.0f / run.scaler;
  std::uint64_t nonzero = 0;
  for (; tied != 0; tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    const float magnitude = std::min(std::fabs(g[i]), run.clip);
    if (ResolveTie(magnitude, run.scaler, inverse, refine_key, run.draw_index + begin + i))
      nonzero |= std::uint64_t{1} << i;
  }
  return nonzero;
}

#if HWY_TARGET == HWY_AVX3
/// Converts bits of 64 elements from the interleaved order of packed vectors (DrawOrder::kPacked) to natural order.
HWY_INLINE std::uint64_t NaturalOrder(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t kLow = 0x0f0f0f0fu;
  const std::uint64_t low = _pext_u32(first, kLow) | std::uint64_t{_pext_u32(second, kLow)} << 32;
  const std::uint64_t high = _pext_u32(first, ~kLow) | std::uint64_t{_pext_u32(second, ~kLow)} << 32;
  return low | high << 16;
}

/// Ternarizes 64 elements: levels of two vectors are packed to 16 bits, so that 32 elements are compared at once.
HWY_INLINE void Compare64(const Run& run, const DrawKey& refine_key, std::size_t begin, const float* HWY_RESTRICT g,
                          std::uint64_t& nonzero, std::uint64_t& negative) {
  // Clamps magnitudes at s as well as at the clip: from s on all codes are +-1. A single multiplication replaces m *
  // inv * 65536: results differ only if the former underflows, and then only in the resolution of ties.
  const __m512 limit = _mm512_set1_ps(std::min(run.scaler, run.clip));
  const __m512 factor = _mm512_set1_ps(1.0f / run.scaler * 65536.0f);
  std::uint32_t below[2];
  std::uint32_t tied[2];
  std::uint32_t sign[2];
  HWY_UNROLL(2)
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512 a = _mm512_loadu_ps(g + 32 * half);
    const __m512 b = _mm512_loadu_ps(g + 32 * half + 16);
    constexpr int kLesserMagnitude = 2 | 2 << 2;  // minimum of the magnitudes, sign cleared
    const __m512 magnitude_a = _mm512_range_ps(a, limit, kLesserMagnitude);
    const __m512 magnitude_b = _mm512_range_ps(b, limit, kLesserMagnitude);
    // Level 65536 saturates to 65535: such elements tie with draw 65535, and ResolveTie makes them nonzero.
    const __m512i levels = _mm512_packus_epi32(_mm512_cvttps_epi32(_mm512_mul_ps(magnitude_a, factor)),
                                               _mm512_cvttps_epi32(_mm512_mul_ps(magnitude_b, factor)));
    const __m512i draws = _mm512_load_si512(run.draws + begin + 32 * half);
    below[half] = _mm512_cmplt_epu16_mask(draws, levels);
    tied[half] = _mm512_cmpeq_epu16_mask(draws, levels);
    sign[half] = _mm512_movepi16_mask(_mm512_packs_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  nonzero = NaturalOrder(below[0], below[1]);
  if (HWY_UNLIKELY((tied[0] | tied[1]) != 0)) {
    nonzero |= ResolveTies(run, refine_key, begin, g, NaturalOrder(tied[0], tied[1]));
  }
  negative = NaturalOrder(sign[0], sign[1]) & nonzero;
}
#else
/// Ternarizes 64 elements.
HWY_INLINE void Compare64(const Run& run, const DrawKey& refine_key, std::size_t begin, const float* HWY_RESTRICT g,
                          std::uint64_t& nonzero, std::uint64_t& negative) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const auto inverse = hn::Set(d, 1.0f / run.scaler);
  const auto levels = hn::Set(d, 65536.0f);
  const auto one = hn::Set(d, 1.0f);
  const auto clip = hn::Set(d, run.clip);
  std::uint64_t certain = 0;
  std::uint64_t tied = 0;
  std::uint64_t sign = 0;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const auto value = hn::LoadU(d, g + i);
    const auto magnitude = hn::Min(hn::Abs(value), clip);
    const auto t = hn::Mul(hn::Mul(magnitude, inverse), levels);
    const auto r = hn::ConvertTo(d, hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i)));
    // r16 < floor(t) is equivalent to r + 1 <= t, and t - 1 is exact where that can hold. r16 == floor(t) is equivalent
    // to r <= t in the other cases.
    const std::uint64_t below = MaskBits(hn::Ge(hn::Sub(t, one), r));
    const std::uint64_t at_most = MaskBits(hn::Ge(t, r));
    certain |= below << i;
    tied |= (at_most & ~below) << i;
    sign |= SignBits(value) << i;
  }
  if (HWY_UNLIKELY(tied != 0)) certain |= ResolveTies(run, refine_key, begin, g, tied);
  nonzero = certain;
  negative = sign & certain;
}
#endif

HWY_INLINE void CompareRun(const Run& run, const DrawKey& refine_key, std::uint64_t* HWY_RESTRICT nonzero,
                           std::uint64_t* HWY_RESTRICT negative) {
  std::size_t begin = 0;
  for (; begin + 64 <= run.count; begin += 64) {
    Compare64(run, refine_key, begin, run.gradient + begin, nonzero[begin / 64], negative[begin / 64]);
  }
  if (begin < run.count) {
    // The partial tail, padded with zeros, which get code 0.
    alignas(64) float padded[64] = {};
    std::memcpy(padded, run.gradient + begin, (run.count - begin) * sizeof(float));
    Compare64(run, refine_key, begin, padded, nonzero[begin / 64], negative[begin / 64]);
  }
}

/// Parameters of both sides of a run; [0] is the positive side.
struct SidedRun {
  float scaler[2];  // NaN if the side's codes are zero
  float clip[2];    // infinity: no clipping
  std::uint64_t draw_index;
  const std::uint16_t* draws;  // null: round to nearest
};

/// Ternarizes 64 elements with a scaler per side, or rounding to nearest.
HWY_INLINE void CompareSides64(const SidedRun& run, const DrawKey& refine_key, std::size_t begin,
                               const float* HWY_RESTRICT g, std::uint64_t& nonzero, std::uint64_t& negative) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const auto levels = hn::Set(d, 65536.0f);
  const auto one = hn::Set(d, 1.0f);
  std::uint64_t certain = 0;
  std::uint64_t tied = 0;
  std::uint64_t sign = 0;
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const auto value = hn::LoadU(d, g + i);
    // Not IfNegativeThenElse, which below SSE4.1 looks at other bits besides the sign.
    const auto is_negative = hn::MaskFromVec(hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(d_int, value))));
    const auto of_side = [&](const float(&sides)[2]) HWY_ATTR {
      return hn::IfThenElse(is_negative, hn::Set(d, sides[1]), hn::Set(d, sides[0]));
    };
    const auto magnitude = hn::Min(hn::Abs(value), of_side(run.clip));
    sign |= SignBits(value) << i;
    if (run.draws == nullptr) {
      certain |= MaskBits(hn::Ge(hn::Add(magnitude, magnitude), of_side(run.scaler))) << i;
      continue;
    }
    const float inverses[2] = {1.0f / run.scaler[0], 1.0f / run.scaler[1]};
    const auto t = hn::Mul(hn::Mul(magnitude, of_side(inverses)), levels);
    const auto r = hn::ConvertTo(d, hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i)));
    // As in Compare64. If the scaler is NaN, so is t, and all comparisons are false.
    const std::uint64_t below = MaskBits(hn::Ge(hn::Sub(t, one), r));
    const std::uint64_t at_most = MaskBits(hn::Ge(t, r));
    certain |= below << i;
    tied |= (at_most & ~below) << i;
  }
  for (; HWY_UNLIKELY(tied != 0); tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    const std::size_t side = std::signbit(g[i]) ? 1 : 0;
    const float magnitude = std::min(std::fabs(g[i]), run.clip[side]);
    if (ResolveTie(magnitude, run.scaler[side], 1.0f / run.scaler[side], refine_key, run.draw_index + begin + i)) {
      certain |= std::uint64_t{1} << i;
    }
  }
  nonzero = certain;
  negative = sign & certain;
}

/// TernarizeChunk for options other than the default.
void TernarizeSides(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                    const DrawKey& key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                    CodePlanes& planes) {
  alignas(64) std::uint16_t draws[(kBlocksPerChunk + kSpareBlocks) * 8];
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  const bool is_drawn = options.rounding == Rounding::kStochastic;
  DrawKey refine_key = key;
  refine_key.purpose = options.refine_purpose;
  if (is_drawn) {
    FillDraws<DrawOrder::kNatural>(key, draw_index / 8, static_cast<std::size_t>((count + 7) / 8), prefetch, draws);
  }
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    SidedRun run{{}, {}, draw_index + static_cast<std::uint64_t>(done), is_drawn ? draws + done : nullptr};
    for (std::int64_t side = 0; side < 2; ++side) {
      const std::int64_t at = options.levels == TernaryLevels::kSymmetric ? block : 2 * block + side;
      const float scaler = task.scalers[at];
      run.scaler[side] = scaler >= kMinScaler ? scaler : std::numeric_limits<float>::quiet_NaN();
      run.clip[side] = task.clips == nullptr ? std::numeric_limits<float>::infinity() : task.clips[at];
    }
    for (std::int64_t i = 0; i < run_count; i += 64) {
      alignas(64) float padded[64] = {};
      const float* g = gradient + done + i;
      if (i + 64 > run_count) {
        std::memcpy(padded, g, static_cast<std::size_t>(run_count - i) * sizeof(float));
        g = padded;
      }
      const std::int64_t word = (done + i) / 64;
      CompareSides64(run, refine_key, static_cast<std::size_t>(i), g, planes.nonzero[word], planes.negative[word]);
    }
  });
}

void TernarizeChunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                    const DrawKey& key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                    CodePlanes& planes) {
  if (options.rounding != Rounding::kStochastic || options.levels != TernaryLevels::kSymmetric) {
    return TernarizeSides(task, gradient, begin, count, key, options, prefetch, planes);
  }
  alignas(64) std::uint16_t draws[(kBlocksPerChunk + kSpareBlocks) * 8];
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  DrawKey refine_key = key;
  refine_key.purpose = options.refine_purpose;
  bool have_draws = false;
  const std::int64_t first_block =
      task.block_elements == 0 ? 0 : (task.first + begin) / task.block_elements - task.first / task.block_elements;
  std::int64_t done = 0;
  for (std::int64_t block = first_block; done < count; ++block) {
    std::int64_t run_count = count - done;
    if (task.block_elements != 0) {
      run_count = std::min(run_count, task.block_elements - (task.first + begin + done) % task.block_elements);
    }
    const auto words = static_cast<std::size_t>(done / 64);
    const float scaler = task.scalers[block];
    if (!(scaler >= kMinScaler)) {  // too small or NaN
      const auto num_words = static_cast<std::size_t>((run_count + 63) / 64);
      std::memset(planes.nonzero + words, 0, num_words * 8);
      std::memset(planes.negative + words, 0, num_words * 8);
    } else {
      if (!have_draws) {
        FillDraws<DrawOrder::kPacked>(key, draw_index / 8, static_cast<std::size_t>((count + 7) / 8), prefetch, draws);
        have_draws = true;
      }
      const Run run{gradient + done,
                    static_cast<std::size_t>(run_count),
                    scaler,
                    task.clips == nullptr ? std::numeric_limits<float>::infinity() : task.clips[block],
                    draw_index + static_cast<std::uint64_t>(done),
                    draws + done};
      CompareRun(run, refine_key, planes.nonzero + words, planes.negative + words);
    }
    done += run_count;
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(TernarizeChunk);
void ternarize_chunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                     const DrawKey& key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                     CodePlanes& planes) {
  HWY_DYNAMIC_DISPATCH(TernarizeChunk)(task, gradient, begin, count, key, options, prefetch, planes);
}
}  // namespace terngrad::cpu
#endif
