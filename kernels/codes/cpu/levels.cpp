// Quantization of a chunk to uniform levels.
#include "kernels/codes/levels.h"
#include "kernels/random/strata.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/levels.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/codes/cpu/block_runs.h"
#include "kernels/codes/cpu/code_vectors-inl.h"
#include "kernels/codes/cpu/draws-inl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A run of elements that share one scaler.
struct LevelRun {
  const float* gradient;
  std::size_t count;
  float scaler;
  float levels;              // L
  std::uint64_t draw_index;  // draw index of the first element
  const std::uint16_t* draws;
  DrawKey refine_key;
  Stratum stratum = {};  // of the worker, if draws are shared
};

/// L + magnitude, or L - magnitude if `value` is negative.
HWY_INLINE VInt Signed(VFloat value, VInt magnitude, VInt levels) {
#if HWY_TARGET == HWY_AVX3
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(value.raw));
  return VInt{_mm512_mask_sub_epi32(_mm512_add_epi32(levels.raw, magnitude.raw), negative, levels.raw, magnitude.raw)};
#else
  const VInt sign = hn::BroadcastSignBit(hn::BitCast(DInt(), value));
  return hn::Add(levels, hn::Sub(hn::Xor(magnitude, sign), sign));
#endif
}

/// min(fl(magnitude * factor), most); `most` if magnitude >= scaler.
HWY_INLINE VFloat Level(VFloat magnitude, VFloat scaler, VFloat factor, VFloat most) {
#if HWY_TARGET == HWY_AVX3
  const __mmask16 below = _mm512_cmp_ps_mask(magnitude.raw, scaler.raw, _CMP_LT_OQ);
  return VFloat{_mm512_mask_min_ps(most.raw, below, _mm512_mul_ps(magnitude.raw, factor.raw), most.raw)};
#else
  const VFloat level = hn::Min(hn::Mul(magnitude, factor), most);
  return hn::IfThenElse(hn::Lt(magnitude, scaler), level, most);
#endif
}

/// Returns true if the refinement bits round up an element whose draw equals its h.
template <bool kStratified>
HWY_INLINE bool RefinesUp(const LevelRun& run, float value, std::uint64_t draw_index) {
  const float magnitude = std::fabs(value);
  if (magnitude >= run.scaler) return false;  // already at the highest level
  const float t = std::min(magnitude * (run.levels / run.scaler), run.levels);
  const float fraction = (t - std::floor(t)) * 65536.0f;
  std::uint32_t refinement = draw32(run.refine_key, draw_index) >> 8;
  if constexpr (kStratified) refinement = run.stratum.refinement(refinement, std::signbit(value) ? 1 : 0);
  return static_cast<float>(refinement) < (fraction - std::floor(fraction)) * 0x1p24f;
}

/// Quantizes 64 elements with draws.
template <bool kStratified>
HWY_INLINE void Draw64(const LevelRun& run, std::size_t begin, const float* HWY_RESTRICT g,
                       std::uint8_t* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const VFloat scaler = hn::Set(d, run.scaler);
  // A single multiplication replaces fl(|g| inv) * 65536: results differ only if the former underflows, and then only
  // in the resolution of ties. Its integer part is 65536 l + h.
  const VFloat factor = hn::Set(d, run.levels / run.scaler * 65536.0f);
  const VFloat most = hn::Set(d, run.levels * 65536.0f);
  const VInt levels = hn::Set(d_int, static_cast<std::int32_t>(run.levels));
  const VInt low_half = hn::Set(d_int, 0xffff);
  VInt codes[64 / kFloatLanes];
  std::uint64_t tied = 0;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VInt level = Truncated(Level(hn::Abs(value), scaler, factor, most));
    VInt r16 = hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i));
    if constexpr (kStratified) r16 = OfStratum(r16, value, run.stratum);
    // l + 1 if r16 < h: adding 65535 - r16 to h then carries. Equal values tie and do not carry.
    const VInt above = hn::Sub(level, r16);
#if HWY_TARGET == HWY_AVX3
    tied |= std::uint64_t{_mm512_testn_epi32_mask(above.raw, low_half.raw)} << i;
#else
    tied |= MaskBits(hn::RebindMask(d, hn::Eq(hn::And(above, low_half), hn::Zero(d_int)))) << i;
#endif
    codes[i / kFloatLanes] = Signed(value, hn::ShiftRight<16>(hn::Add(above, low_half)), levels);
  }
  StoreBytes(codes, out);
  for (; HWY_UNLIKELY(tied != 0); tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    if (!RefinesUp<kStratified>(run, g[i], run.draw_index + begin + i)) continue;
    out[i] = static_cast<std::uint8_t>(std::signbit(g[i]) ? out[i] - 1 : out[i] + 1);
  }
}

/// Quantizes 64 elements, rounding to nearest.
HWY_INLINE void Round64(const LevelRun& run, const float* HWY_RESTRICT g, std::uint8_t* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const VFloat scaler = hn::Set(d, run.scaler);
  const VFloat factor = hn::Set(d, run.levels / run.scaler);
  const VFloat most = hn::Set(d, run.levels);
  const VInt levels = hn::Set(d_int, static_cast<std::int32_t>(run.levels));
  const VFloat whole = hn::Set(d, 0x1p23f);  // float32 has no fractions from here on: adding rounds, ties to even
  VInt codes[64 / kFloatLanes];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VFloat rounded = hn::Add(Level(hn::Abs(value), scaler, factor, most), whole);
    codes[i / kFloatLanes] = Signed(value, hn::Sub(hn::BitCast(d_int, rounded), hn::BitCast(d_int, whole)), levels);
  }
  StoreBytes(codes, out);
}

void QuantizeLevelsChunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                         const LevelOptions& options, const DrawKey& worker_key, std::span<const std::byte> prefetch,
                         ChunkDraws& draws, std::uint8_t* codes) {
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  const int levels = num_levels(options.bits);
  DrawKey key = worker_key;
  Stratum stratum;
  if (options.rounding == Rounding::kStratified) {
    stratum = stratum_of(key.worker, static_cast<std::uint32_t>(options.num_workers));
    key.worker = 0;
  }
  DrawKey refine_key = key;
  refine_key.purpose = options.refine_purpose;
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    const float scaler = task.scalers[block];
    if (!(scaler >= kMinScaler)) {  // too small or NaN
      std::memset(codes + done, levels, static_cast<std::size_t>(run_count));
      return;
    }
    if (options.rounding != Rounding::kNearest) {
      FillOnce<DrawOrder::kNatural>(key, draw_index, count, prefetch, draws);
    }
    const LevelRun run{gradient + done,
                       static_cast<std::size_t>(run_count),
                       scaler,
                       static_cast<float>(levels),
                       draw_index + static_cast<std::uint64_t>(done),
                       draws.values + done,
                       refine_key,
                       stratum};
    const auto quantize = [&](const auto& quantize_64)
                              HWY_ATTR { QuantizeRun(run.gradient, run.count, codes + done, quantize_64); };
    if (options.rounding == Rounding::kNearest) {
      quantize([&](std::size_t, const float* g, std::uint8_t* out) HWY_ATTR { Round64(run, g, out); });
    } else if (options.rounding == Rounding::kStratified) {
      quantize([&](std::size_t at, const float* g, std::uint8_t* out) HWY_ATTR { Draw64<true>(run, at, g, out); });
    } else {
      quantize([&](std::size_t at, const float* g, std::uint8_t* out) HWY_ATTR { Draw64<false>(run, at, g, out); });
    }
  });
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(QuantizeLevelsChunk);
void quantize_levels_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                           const LevelOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                           ChunkDraws& draws, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantizeLevelsChunk)(task, gradient, begin, count, options, key, prefetch, draws, codes);
}
}  // namespace terngrad::cpu
#endif
