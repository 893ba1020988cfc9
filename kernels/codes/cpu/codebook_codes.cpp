// Quantization of a chunk to the levels of a codebook, and the values of codes.
#include "kernels/codes/codebook_codes.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/codebook_codes.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/codes/cpu/block_runs.h"
#include "kernels/codes/cpu/code_vectors-inl.h"

#include <algorithm>
#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <int kMagnitudes>
HWY_INLINE void Quantize64(const Codebook& codebook, float unit, const float* HWY_RESTRICT g,
                           std::uint8_t* HWY_RESTRICT out) {
  constexpr int kSignShift = 31 - std::countr_zero(static_cast<unsigned>(kMagnitudes));
  const DFloat d;
  const DInt d_int;
  VInt codes[64 / kFloatLanes];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64; i += kFloatLanes) {
    const VFloat value = hn::LoadU(d, g + i);
    const VFloat magnitude = hn::Abs(value);
    VInt below = hn::Zero(d_int);  // minus the number of thresholds that are not above the magnitude
    HWY_UNROLL(8)
    for (int k = 0; k + 1 < kMagnitudes; ++k) {
      const auto reached = hn::Ge(magnitude, hn::Set(d, codebook.thresholds[k] * unit));
      below = hn::Add(below, hn::VecFromMask(d_int, hn::RebindMask(d_int, reached)));
    }
    const auto bits = hn::BitCast(hn::RebindToUnsigned<DFloat>(), value);
    const auto sign = hn::And(hn::ShiftRight<kSignShift>(bits), hn::Set(hn::RebindToUnsigned<DFloat>(), kMagnitudes));
    codes[i / kFloatLanes] = hn::Sub(hn::BitCast(d_int, sign), below);
  }
  StoreBytes(codes, out);
}

void QuantizeCodebookChunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                           const Codebook& codebook, std::uint8_t* codes) {
  for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) HWY_ATTR {
    const float unit = task.scalers[block];
    if (!(unit >= kMinScaler)) {  // too small or NaN
      std::memset(codes + done, 0, static_cast<std::size_t>(run_count));
      return;
    }
    const auto quantize = [&](const auto& quantize_64) HWY_ATTR {
      QuantizeRun(gradient + done, static_cast<std::size_t>(run_count), codes + done, quantize_64);
    };
    if (codebook.num_magnitudes == 2) {
      quantize([&](std::size_t, const float* g, std::uint8_t* out) HWY_ATTR { Quantize64<2>(codebook, unit, g, out); });
    } else if (codebook.num_magnitudes == 4) {
      quantize([&](std::size_t, const float* g, std::uint8_t* out) HWY_ATTR { Quantize64<4>(codebook, unit, g, out); });
    } else {
      quantize([&](std::size_t, const float* g, std::uint8_t* out) HWY_ATTR { Quantize64<8>(codebook, unit, g, out); });
    }
  });
}

void ScaleCodebook(const std::uint8_t* HWY_RESTRICT codes, std::int64_t count, const Codebook& codebook, float scaler,
                   float* HWY_RESTRICT out) {
  const DFloat d;
  const DInt d_int;
  const hn::Rebind<std::uint8_t, DFloat> d8;
  float levels[std::max<std::size_t>(kFloatLanes, Codebook::kMaxMagnitudes)] = {};
  std::copy_n(codebook.values, codebook.num_magnitudes, levels);
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  if constexpr (kFloatLanes >= Codebook::kMaxMagnitudes) {  // a vector holds the magnitudes
    const int sign_shift = 31 - std::countr_zero(static_cast<unsigned>(codebook.num_magnitudes));
    const auto low_bits = hn::Set(d_int, codebook.num_magnitudes - 1);
    const auto sign_bit = hn::Set(d_int, codebook.num_magnitudes);
    const auto table = hn::LoadU(d, levels);
    const auto v_scaler = hn::Set(d, scaler);
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      const VInt code = hn::PromoteTo(d_int, hn::LoadU(d8, codes + i));
      const VInt sign = hn::ShiftLeftSame(hn::And(code, sign_bit), sign_shift);
      const VFloat magnitude = hn::TableLookupLanes(table, hn::IndicesFromVec(d, hn::And(code, low_bits)));
      hn::StoreU(hn::Mul(v_scaler, hn::Xor(magnitude, hn::BitCast(d, sign))), d, out + i);
    }
  }
  for (; i < n; ++i) {
    const float level = levels[codes[i] & (codebook.num_magnitudes - 1)];
    out[i] = scaler * (codes[i] < codebook.num_magnitudes ? level : -level);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(QuantizeCodebookChunk);
HWY_EXPORT(ScaleCodebook);
void quantize_codebook_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                             const Codebook& codebook, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantizeCodebookChunk)(task, gradient, begin, count, codebook, codes);
}
void scale_codebook(const std::uint8_t* codes, std::int64_t count, const Codebook& codebook, float scaler, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleCodebook)(codes, count, codebook, scaler, out);
}
}  // namespace terngrad::cpu
#endif
