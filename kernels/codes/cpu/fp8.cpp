// E4M3 quantization of chunks.
#include "kernels/codes/fp8.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/fp8.cpp"
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

/// Exponent field of 2^-7 in float32, the lower end of E4M3's exponents: subtracting it leaves code and fraction.
inline constexpr std::int32_t kExponentBits = 120 << 23;
/// The smallest normal E4M3 number.
inline constexpr float kMinNormal = 0x1p-6f;

/// x = min(fl(|g| inv), 448).
HWY_INLINE VFloat Scaled(VFloat value, VFloat inverse) {
  return hn::Min(hn::Mul(hn::Abs(value), inverse), hn::Set(DFloat(), kMaxE4M3));
}

/// Adds the sign of `value` to the code, except for zero.
HWY_INLINE VInt WithSign(VInt code, VFloat value) {
  const DInt d;
  const VInt sign = hn::And(hn::ShiftRight<24>(hn::BitCast(d, value)), hn::Set(d, 0x80));
  return hn::IfThenZeroElse(hn::Eq(code, hn::Zero(d)), hn::Or(code, sign));
}

/// Selects `normal` if x is a normal E4M3 number, else `subnormal`.
HWY_INLINE VInt ByExponent(VFloat x, VInt normal, VInt subnormal) {
  const DFloat d;
  const DInt d_int;
  return hn::IfThenElse(hn::RebindMask(d_int, hn::Lt(x, hn::Set(d, kMinNormal))), subnormal, normal);
}

/// Quantizes 64 elements, rounding to nearest.
HWY_INLINE void RoundFp8(float inverse, const float* HWY_RESTRICT g, std::uint8_t* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const VFloat v_inverse = hn::Set(d, inverse);
  // At 2^14 the unit in the last place of float32 is 2^-9, E4M3's smallest number: adding rounds, ties to even.
  const VFloat coarse = hn::Set(d, 0x1p14f);
  VInt codes[64 / kFloatLanes];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VFloat x = Scaled(value, v_inverse);
    const VInt subnormal = hn::Sub(hn::BitCast(d_int, hn::Add(x, coarse)), hn::BitCast(d_int, coarse));
    const VInt bits = hn::BitCast(d_int, x);
    const VInt odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(d_int, 1));
    const VInt rounded = hn::Add(bits, hn::Add(odd, hn::Set(d_int, 0x7ffff - kExponentBits)));
    codes[i / kFloatLanes] = WithSign(ByExponent(x, hn::ShiftRight<20>(rounded), subnormal), value);
  }
  StoreBytes(codes, out);
}

/// Inputs for quantizing a run with draws.
struct Fp8Draws {
  float inverse;
  std::uint64_t draw_index;  // draw index of the run's first element
  const std::uint16_t* draws;
};

/// Returns true if the refinement bits round up an element whose draw equals its h.
HWY_INLINE bool RefinesFp8(float g, const Fp8Draws& run, const DrawKey& refine_key, std::uint64_t draw_index) {
  const float x = std::min(std::fabs(g) * run.inverse, kMaxE4M3);
  const std::uint32_t r24 = draw32(refine_key, draw_index) >> 8;
  if (x >= kMinNormal) return r24 < (std::bit_cast<std::uint32_t>(x) & 15u) << 20;
  const float fraction = x * 0x1p25f;  // 65536 times the number of steps of 2^-9
  return static_cast<float>(r24) < (fraction - std::floor(fraction)) * 0x1p24f;
}

/// Quantizes 64 elements with draws.
HWY_INLINE void DrawFp8(const Fp8Draws& run, const DrawKey& refine_key, std::size_t begin, const float* HWY_RESTRICT g,
                        std::uint8_t* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const VFloat inverse = hn::Set(d, run.inverse);
  const VFloat steps = hn::Set(d, 0x1p25f);
  const VInt low_half = hn::Set(d_int, 0xffff);
  VInt codes[64 / kFloatLanes];
  std::uint64_t tied = 0;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VFloat x = Scaled(value, inverse);
    // The lower number's code above 16 bits of the fraction between it and the next.
    const VInt normal = hn::ShiftRight<4>(hn::Sub(hn::BitCast(d_int, x), hn::Set(d_int, kExponentBits)));
    const VInt fixed = ByExponent(x, normal, Truncated(hn::Mul(hn::Min(x, hn::Set(d, kMinNormal)), steps)));
    const VInt r16 = hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i));
    // Rounds up if r16 < h: adding 65535 - r16 to h then carries. Equal values tie and do not carry.
    const VInt above = hn::Sub(fixed, r16);
    tied |= MaskBits(hn::RebindMask(d, hn::Eq(hn::And(above, low_half), hn::Zero(d_int)))) << i;
    codes[i / kFloatLanes] = WithSign(hn::ShiftRight<16>(hn::Add(above, low_half)), value);
  }
  StoreBytes(codes, out);
  for (; HWY_UNLIKELY(tied != 0); tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    if (!RefinesFp8(g[i], run, refine_key, run.draw_index + begin + i)) continue;
    // A zero code has no sign yet.
    out[i] = static_cast<std::uint8_t>((out[i] & 0x7f) + 1 + (std::signbit(g[i]) ? 0x80 : 0));
  }
}

void QuantizeFp8Chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                      const Fp8Options& options, const DrawKey& key, std::span<const std::byte> prefetch,
                      ChunkDraws& draws, std::uint8_t* codes) {
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  DrawKey refine_key = key;
  refine_key.purpose = options.refine_purpose;
  const bool is_drawn = options.rounding == Rounding::kStochastic;
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    const float scaler = task.scalers[block];
    if (!(scaler >= kMinScaler)) {  // too small or NaN
      std::memset(codes + done, 0, static_cast<std::size_t>(run_count));
      return;
    }
    if (is_drawn) FillOnce<DrawOrder::kNatural>(key, draw_index, count, prefetch, draws);
    const Fp8Draws run{1.0f / scaler, draw_index + static_cast<std::uint64_t>(done), draws.values + done};
    QuantizeRun(gradient + done, static_cast<std::size_t>(run_count), codes + done,
                [&](std::size_t at, const float* g, std::uint8_t* out) HWY_ATTR {
                  if (is_drawn) {
                    DrawFp8(run, refine_key, at, g, out);
                  } else {
                    RoundFp8(run.inverse, g, out);
                  }
                });
  });
}

void ScaleE4M3(const std::uint8_t* HWY_RESTRICT codes, std::int64_t count, float scaler, float* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint8_t, DFloat> d8;
  const auto n = static_cast<std::size_t>(count);
  const VFloat v_scaler = hn::Set(d, scaler);
  const VInt magnitude_mask = hn::Set(d_int, 0x7f);
  const VInt first_normal = hn::Set(d_int, 8);
  for (std::size_t i = 0; i < n; i += kFloatLanes) {
    std::uint8_t few[kFloatLanes] = {};
    const bool is_whole = i + kFloatLanes <= n;
    if (!is_whole) std::memcpy(few, codes + i, n - i);
    const VInt code = hn::PromoteTo(d_int, hn::LoadU(d8, is_whole ? codes + i : few));
    const VInt magnitude = hn::And(code, magnitude_mask);
    const VFloat subnormal = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-9f));
    const VFloat normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(d_int, kExponentBits)));
    const VFloat value = hn::IfThenElse(hn::RebindMask(d, hn::Lt(magnitude, first_normal)), subnormal, normal);
    const VInt sign = hn::ShiftLeft<24>(hn::Sub(code, magnitude));
    const VFloat scaled = hn::Mul(v_scaler, hn::Or(value, hn::BitCast(d, sign)));
    if (is_whole) {
      hn::StoreU(scaled, d, out + i);
    } else {
      alignas(64) float all[kFloatLanes];
      hn::Store(scaled, d, all);
      std::memcpy(out + i, all, (n - i) * sizeof(float));
    }
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(QuantizeFp8Chunk);
HWY_EXPORT(ScaleE4M3);
void quantize_fp8_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                        const Fp8Options& options, const DrawKey& key, std::span<const std::byte> prefetch,
                        ChunkDraws& draws, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantizeFp8Chunk)(task, gradient, begin, count, options, key, prefetch, draws, codes);
}
void scale_e4m3(const std::uint8_t* codes, std::int64_t count, float scaler, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleE4M3)(codes, count, scaler, out);
}
}  // namespace terngrad::cpu
#endif
