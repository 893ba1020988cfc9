// Ternarization of one chunk: draws, comparison, bit planes.
#include "kernels/codes/ternarize.h"
#include "kernels/random/strata.h"
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
/// @param refinement  24 bits
HWY_INLINE bool ResolveTie(float magnitude, float scaler, float inverse, std::uint32_t refinement) {
  if (magnitude >= scaler) return true;
  const float t = magnitude * inverse * 65536.0f;
  if (t >= 65536.0f) return true;  // rounded up to full scale: above every draw
  const float fraction = t - std::floor(t);
  return static_cast<float>(refinement) < fraction * 0x1p24f;
}

/// The second stream of draws, for ties, and the worker's stratum if draws are shared.
struct Refinement {
  DrawKey key;
  Stratum stratum;
  bool is_shared = false;

  /// 24 bits for element g.
  HWY_INLINE std::uint32_t Of(float g, std::uint64_t draw_index) const {
    const std::uint32_t bits = draw32(key, draw_index) >> 8;
    return is_shared ? stratum.refinement(bits, std::signbit(g) ? 1 : 0) : bits;
  }
};

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
HWY_INLINE std::uint64_t ResolveTies(const Run& run, const Refinement& refinement, std::size_t begin, const float* g,
                                     std::uint64_t tied) {
  const float inverse = 1.0f / run.scaler;
  std::uint64_t nonzero = 0;
  for (; tied != 0; tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    const float magnitude = std::min(std::fabs(g[i]), run.clip);
    if (ResolveTie(magnitude, run.scaler, inverse, refinement.Of(g[i], run.draw_index + begin + i)))
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
template <bool kStratified>
HWY_INLINE void Compare64(const Run& run, const Refinement& refinement, std::size_t begin, const float* HWY_RESTRICT g,
                          std::uint64_t& nonzero, std::uint64_t& negative) {
  // Clamps magnitudes at s as well as at the clip: from s on all codes are +-1. A single multiplication replaces m *
  // inv * 65536: results differ only if the former underflows, and then only in the resolution of ties.
  const __m512 limit = _mm512_set1_ps(std::min(run.scaler, run.clip));
  const __m512 factor = _mm512_set1_ps(1.0f / run.scaler * 65536.0f);
  const __m512i offset = _mm512_set1_epi16(static_cast<std::int16_t>(refinement.stratum.offset));
  const __m512i mirror = _mm512_set1_epi16(refinement.stratum.mirrored != 0 ? -1 : 0);
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
    const __m512i signs = _mm512_packs_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
    __m512i draws = _mm512_load_si512(run.draws + begin + 32 * half);
    if constexpr (kStratified) {
      const __m512i flips = _mm512_xor_si512(_mm512_srai_epi16(signs, 15), mirror);
      draws = _mm512_xor_si512(_mm512_add_epi16(draws, offset), flips);
    }
    below[half] = _mm512_cmplt_epu16_mask(draws, levels);
    tied[half] = _mm512_cmpeq_epu16_mask(draws, levels);
    sign[half] = _mm512_movepi16_mask(signs);
  }
  nonzero = NaturalOrder(below[0], below[1]);
  if (HWY_UNLIKELY((tied[0] | tied[1]) != 0)) {
    nonzero |= ResolveTies(run, refinement, begin, g, NaturalOrder(tied[0], tied[1]));
  }
  negative = NaturalOrder(sign[0], sign[1]) & nonzero;
}
#elif HWY_TARGET == HWY_AVX2
/// One bit for each of 32 elements: the signs of 16-bit lanes in the interleaved order of packed vectors.
HWY_INLINE std::uint32_t SignsOfPacked(__m256i first, __m256i second) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes));
}

/// Ternarizes 64 elements: as with AVX-512, 16 elements in 16 bits are compared at once.
template <bool kStratified>
HWY_INLINE void Compare64(const Run& run, const Refinement& refinement, std::size_t begin, const float* HWY_RESTRICT g,
                          std::uint64_t& nonzero, std::uint64_t& negative) {
  const __m256 limit = _mm256_set1_ps(std::min(run.scaler, run.clip));
  const __m256 factor = _mm256_set1_ps(1.0f / run.scaler * 65536.0f);
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  const __m256i offset = _mm256_set1_epi16(static_cast<std::int16_t>(refinement.stratum.offset));
  const __m256i mirror = _mm256_set1_epi16(refinement.stratum.mirrored != 0 ? -1 : 0);
  std::uint64_t below = 0;
  std::uint64_t tied = 0;
  std::uint64_t sign = 0;
  HWY_UNROLL(2)
  for (std::size_t half = 0; half < 2; ++half) {
    __m256i signs[2];
    __m256i not_below[2];
    __m256i ties[2];
    HWY_UNROLL(2)
    for (std::size_t pair = 0; pair < 2; ++pair) {
      const std::size_t at = 32 * half + 16 * pair;
      const __m256 a = _mm256_loadu_ps(g + at);
      const __m256 b = _mm256_loadu_ps(g + at + 8);
      const __m256 magnitude_a = _mm256_min_ps(_mm256_andnot_ps(sign_bit, a), limit);
      const __m256 magnitude_b = _mm256_min_ps(_mm256_andnot_ps(sign_bit, b), limit);
      const __m256i levels = _mm256_packus_epi32(_mm256_cvttps_epi32(_mm256_mul_ps(magnitude_a, factor)),
                                                 _mm256_cvttps_epi32(_mm256_mul_ps(magnitude_b, factor)));
      signs[pair] = _mm256_packs_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
      __m256i draws = _mm256_load_si256(reinterpret_cast<const __m256i*>(run.draws + begin + at));
      if constexpr (kStratified) {
        const __m256i flips = _mm256_xor_si256(_mm256_srai_epi16(signs[pair], 15), mirror);
        draws = _mm256_xor_si256(_mm256_add_epi16(draws, offset), flips);
      }
      not_below[pair] = _mm256_cmpeq_epi16(_mm256_subs_epu16(levels, draws), _mm256_setzero_si256());
      ties[pair] = _mm256_cmpeq_epi16(levels, draws);
    }
    below |= std::uint64_t{~SignsOfPacked(not_below[0], not_below[1])} << (32 * half);
    sign |= std::uint64_t{SignsOfPacked(signs[0], signs[1])} << (32 * half);
    const __m256i any = _mm256_or_si256(ties[0], ties[1]);
    if (HWY_UNLIKELY(_mm256_testz_si256(any, any) == 0)) {
      tied |= std::uint64_t{SignsOfPacked(ties[0], ties[1])} << (32 * half);
    }
  }
  nonzero = below;
  if (HWY_UNLIKELY(tied != 0)) nonzero |= ResolveTies(run, refinement, begin, g, tied);
  negative = sign & nonzero;
}
#else
/// Ternarizes 64 elements.
template <bool kStratified>
HWY_INLINE void Compare64(const Run& run, const Refinement& refinement, std::size_t begin, const float* HWY_RESTRICT g,
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
    auto r16 = hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i));
    if constexpr (kStratified) r16 = OfStratum(r16, value, refinement.stratum);
    const auto r = hn::ConvertTo(d, r16);
    // r16 < floor(t) is equivalent to r + 1 <= t, and t - 1 is exact where that can hold. r16 == floor(t) is equivalent
    // to r <= t in the other cases.
    const std::uint64_t below = MaskBits(hn::Ge(hn::Sub(t, one), r));
    const std::uint64_t at_most = MaskBits(hn::Ge(t, r));
    certain |= below << i;
    tied |= (at_most & ~below) << i;
    sign |= SignBits(value) << i;
  }
  if (HWY_UNLIKELY(tied != 0)) certain |= ResolveTies(run, refinement, begin, g, tied);
  nonzero = certain;
  negative = sign & certain;
}
#endif

template <bool kStratified>
HWY_INLINE void CompareRun(const Run& run, const Refinement& refinement, std::uint64_t* HWY_RESTRICT nonzero,
                           std::uint64_t* HWY_RESTRICT negative) {
  std::size_t begin = 0;
  for (; begin + 64 <= run.count; begin += 64) {
    Compare64<kStratified>(run, refinement, begin, run.gradient + begin, nonzero[begin / 64], negative[begin / 64]);
  }
  if (begin < run.count) {
    // The partial tail, padded with zeros, which get code 0.
    alignas(64) float padded[64] = {};
    std::memcpy(padded, run.gradient + begin, (run.count - begin) * sizeof(float));
    Compare64<kStratified>(run, refinement, begin, padded, nonzero[begin / 64], negative[begin / 64]);
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
HWY_INLINE void CompareSides64(const SidedRun& run, const Refinement& refinement, std::size_t begin,
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
    auto r16 = hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i));
    if (refinement.is_shared) r16 = OfStratum(r16, value, refinement.stratum);
    const auto r = hn::ConvertTo(d, r16);
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
    if (ResolveTie(magnitude, run.scaler[side], 1.0f / run.scaler[side],
                   refinement.Of(g[i], run.draw_index + begin + i))) {
      certain |= std::uint64_t{1} << i;
    }
  }
  nonzero = certain;
  negative = sign & certain;
}

/// TernarizeChunk with a scaler per side, or rounding to nearest.
void TernarizeSides(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                    const DrawKey& key, const TernarizeOptions& options, const Refinement& refinement,
                    std::span<const std::byte> prefetch, ChunkDraws& draws, CodePlanes& planes) {
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  const bool is_drawn = options.rounding != Rounding::kNearest;
  if (is_drawn) FillOnce<DrawOrder::kNatural>(key, draw_index, count, prefetch, draws);
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    SidedRun run{{}, {}, draw_index + static_cast<std::uint64_t>(done), is_drawn ? draws.values + done : nullptr};
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
      CompareSides64(run, refinement, static_cast<std::size_t>(i), g, planes.nonzero[word], planes.negative[word]);
    }
  });
}

void TernarizeChunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                    const DrawKey& worker_key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                    ChunkDraws& draws, CodePlanes& planes) {
  DrawKey key = worker_key;
  Refinement refinement;
  if (options.rounding == Rounding::kStratified) {
    refinement.stratum = stratum_of(key.worker, static_cast<std::uint32_t>(options.num_workers));
    refinement.is_shared = true;
    key.worker = 0;
  }
  refinement.key = key;
  refinement.key.purpose = options.refine_purpose;
  if (options.rounding == Rounding::kNearest || options.levels != TernaryLevels::kSymmetric) {
    return TernarizeSides(task, gradient, begin, count, key, options, refinement, prefetch, draws, planes);
  }
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
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
      FillOnce<DrawOrder::kPacked>(key, draw_index, count, prefetch, draws);
      const Run run{gradient + done,
                    static_cast<std::size_t>(run_count),
                    scaler,
                    task.clips == nullptr ? std::numeric_limits<float>::infinity() : task.clips[block],
                    draw_index + static_cast<std::uint64_t>(done),
                    draws.values + done};
      if (refinement.is_shared) {
        CompareRun<true>(run, refinement, planes.nonzero + words, planes.negative + words);
      } else {
        CompareRun<false>(run, refinement, planes.nonzero + words, planes.negative + words);
      }
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
                     ChunkDraws& draws, CodePlanes& planes) {
  HWY_DYNAMIC_DISPATCH(TernarizeChunk)(task, gradient, begin, count, key, options, prefetch, draws, planes);
}
}  // namespace terngrad::cpu
#endif
