// Natural compression of chunks.
#include "kernels/codes/exponents.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/exponents.cpp"
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

/// Exponent field of 2^-7 in float32, which corresponds to n4's code 0.
inline constexpr std::int32_t kNarrowExponentBits = 120 << 23;
/// Value of n4's code 1.
inline constexpr float kMinNarrow = 0x1p-6f;

/// Puts the sign of `value` into bit kBits - 1 of the code, except for zero.
template <int kBits>
HWY_INLINE VInt WithSign(VInt code, VFloat value) {
  const DInt d;
  const VInt sign = hn::And(hn::ShiftRight<32 - kBits>(hn::BitCast(d, value)), hn::Set(d, 1 << (kBits - 1)));
  return hn::IfThenZeroElse(hn::Eq(code, hn::Zero(d)), hn::Or(code, sign));
}

/// For y in [0, 1]: the code of the next lower power above 16 bits of the probability of rounding up.
template <int kBits>
HWY_INLINE VInt Fixed(VFloat y) {
  const DFloat d;
  const DInt d_int;
  const VInt bits = hn::BitCast(d_int, y);
  if constexpr (kBits == 8) return hn::ShiftRight<7>(bits);
  const VInt power = hn::ShiftRight<7>(hn::Sub(bits, hn::Set(d_int, kNarrowExponentBits)));
  const VInt below = Truncated(hn::Mul(hn::Min(y, hn::Set(d, kMinNarrow)), hn::Set(d, 0x1p22f)));
  return hn::IfThenElse(hn::RebindMask(d_int, hn::Lt(y, hn::Set(d, kMinNarrow))), below, power);
}

/// Inputs for quantizing a run.
struct ExponentRun {
  float inverse;
  std::uint64_t draw_index;  // draw index of the run's first element
  const std::uint16_t* draws;
};

/// Returns true if the refinement bits round up an element whose 16-bit draw is a tie.
template <int kBits>
HWY_INLINE bool RefinesUp(float g, const ExponentRun& run, const DrawKey& refine_key, std::uint64_t draw_index) {
  const float y = std::min(std::fabs(g) * run.inverse, 1.0f);
  const std::uint32_t r24 = draw32(refine_key, draw_index) >> 8;
  if (kBits == 4 && y < kMinNarrow) {
    const float probability = y * 0x1p22f;  // in units of 2^-16
    return static_cast<float>(r24) < (probability - std::floor(probability)) * 0x1p24f;
  }
  return r24 >> 17 < (std::bit_cast<std::uint32_t>(y) & 127u);
}

/// Quantizes 64 elements.
template <int kBits>
HWY_INLINE void Draw64(const ExponentRun& run, const DrawKey& refine_key, std::size_t begin,
                       const float* HWY_RESTRICT g, std::uint8_t* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const VFloat inverse = hn::Set(d, run.inverse);
  const VFloat one = hn::Set(d, 1.0f);
  const VInt low_half = hn::Set(d_int, 0xffff);
  VInt codes[64 / kFloatLanes];
  std::uint64_t tied = 0;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VInt fixed = Fixed<kBits>(hn::Min(hn::Mul(hn::Abs(value), inverse), one));
    const VInt r16 = hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i));
    // Rounds up if r16 is smaller: adding 65535 - r16 then carries. Equal values tie and do not carry.
    const VInt above = hn::Sub(fixed, r16);
    tied |= MaskBits(hn::RebindMask(d, hn::Eq(hn::And(above, low_half), hn::Zero(d_int)))) << i;
    codes[i / kFloatLanes] = WithSign<kBits>(hn::ShiftRight<16>(hn::Add(above, low_half)), value);
  }
  StoreBytes(codes, out);
  constexpr unsigned kSign = 1u << (kBits - 1);
  for (; HWY_UNLIKELY(tied != 0); tied &= tied - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(tied));
    if (!RefinesUp<kBits>(g[i], run, refine_key, run.draw_index + begin + i)) continue;
    // A zero code has no sign yet.
    out[i] = static_cast<std::uint8_t>((out[i] & (kSign - 1)) + 1 + (std::signbit(g[i]) ? kSign : 0));
  }
}

void QuantizeExponentsChunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                            const ExponentOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                            ChunkDraws& draws, std::uint8_t* codes) {
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  DrawKey refine_key = key;
  refine_key.purpose = options.refine_purpose;
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    const float scaler = task.scalers[block];
    if (!(scaler >= kMinScaler)) {  // too small or NaN
      std::memset(codes + done, 0, static_cast<std::size_t>(run_count));
      return;
    }
    FillOnce<DrawOrder::kNatural>(key, draw_index, count, prefetch, draws);
    const ExponentRun run{1.0f / scaler, draw_index + static_cast<std::uint64_t>(done), draws.values + done};
    QuantizeRun(gradient + done, static_cast<std::size_t>(run_count), codes + done,
                [&](std::size_t at, const float* g, std::uint8_t* out) HWY_ATTR {
                  if (options.bits == 8) {
                    Draw64<8>(run, refine_key, at, g, out);
                  } else {
                    Draw64<4>(run, refine_key, at, g, out);
                  }
                });
  });
}

template <int kBits>
HWY_INLINE void Scale(const std::uint8_t* HWY_RESTRICT codes, std::size_t count, float scaler,
                      float* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint8_t, DFloat> d8;
  const VFloat v_scaler = hn::Set(d, scaler);
  const VInt magnitude_mask = hn::Set(d_int, (1 << (kBits - 1)) - 1);
  const VInt lowest = hn::Set(d_int, kBits == 8 ? 0 : kNarrowExponentBits);
  for (std::size_t i = 0; i < count; i += kFloatLanes) {
    std::uint8_t few[kFloatLanes] = {};
    const bool is_whole = i + kFloatLanes <= count;
    if (!is_whole) std::memcpy(few, codes + i, count - i);
    const VInt code = hn::PromoteTo(d_int, hn::LoadU(d8, is_whole ? codes + i : few));
    const VInt magnitude = hn::And(code, magnitude_mask);
    const VInt power = hn::Add(hn::ShiftLeft<23>(magnitude), lowest);
    const VInt bits = hn::Or(power, hn::ShiftLeft<32 - kBits>(hn::Sub(code, magnitude)));
    const VFloat value = hn::BitCast(d, hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d_int)), bits));
    const VFloat scaled = hn::Mul(v_scaler, value);
    if (is_whole) {
      hn::StoreU(scaled, d, out + i);
    } else {
      alignas(64) float all[kFloatLanes];
      hn::Store(scaled, d, all);
      std::memcpy(out + i, all, (count - i) * sizeof(float));
    }
  }
}

void ScaleExponents(const std::uint8_t* codes, std::int64_t count, int bits, float scaler, float* out) {
  const auto n = static_cast<std::size_t>(count);
  if (bits == 8) return Scale<8>(codes, n, scaler, out);
  Scale<4>(codes, n, scaler, out);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(QuantizeExponentsChunk);
HWY_EXPORT(ScaleExponents);
void quantize_exponents_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                              const ExponentOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                              ChunkDraws& draws, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantizeExponentsChunk)(task, gradient, begin, count, options, key, prefetch, draws, codes);
}
void scale_exponents(const std::uint8_t* codes, std::int64_t count, int bits, float scaler, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleExponents)(codes, count, bits, scaler, out);
}
}  // namespace terngrad::cpu
#endif
