#include "kernels/tensor/cpu/averaged_residual.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tensor/cpu/averaged_residual.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/tensor/averaged_residual.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using VFloat = hn::Vec<D>;
constexpr std::size_t kBlock = kResidualBlock;

/// Codes and scale of a block.
struct Block {
  alignas(64) std::int8_t codes[kBlock];
  float scale;

  HWY_INLINE Block(const float* words, bool is_reset) : scale(0) {
    std::memset(codes, 0, sizeof(codes));
    if (is_reset) return;
    std::memcpy(codes, words, sizeof(codes));
    scale = words[kBlock / sizeof(float)];
  }
  HWY_INLINE VFloat at(std::size_t i) const {
    const D d;
    const auto wide = hn::PromoteTo(hn::RebindToSigned<D>(), hn::Load(hn::Rebind<std::int8_t, D>(), codes + i));
    return hn::Mul(hn::Set(d, scale), hn::ConvertTo(d, wide));
  }
};

void CompensateAveraged(const float* state, bool is_reset, const float* gradient, float* out, std::int64_t count) {
  const D d;
  const auto n = static_cast<std::size_t>(count);
  alignas(64) float last[kBlock] = {};
  for (std::size_t begin = 0; begin < n; begin += kBlock, state += kResidualBlockWords) {
    const Block block(state, is_reset);
    const bool is_whole = begin + kBlock <= n;
    const float* from = gradient + begin;
    float* to = is_whole ? out + begin : last;
    if (!is_whole) {
      std::memcpy(last, from, (n - begin) * sizeof(float));
      from = last;
    }
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      hn::StoreU(hn::Add(block.at(i), hn::LoadU(d, from + i)), d, to + i);
    }
    if (!is_whole) std::memcpy(out + begin, last, (n - begin) * sizeof(float));
  }
}

/// Updates one block. @param encoded, sent  [kBlock]
HWY_INLINE void UpdateBlock(const float* encoded, const float* sent, bool is_reset, float decay, float weight,
                            float* state) {
  const D d;
  const Block before(state, is_reset);
  alignas(64) float next[kBlock];
  // The largest bits of a magnitude, which compare as it does, are those of a NaN if there is one.
  const hn::RebindToSigned<D> di;
  auto max = hn::Zero(di);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    // Two rounded products and a rounded sum: no fused multiply-add.
    const VFloat unsent = hn::Sub(hn::LoadU(d, encoded + i), hn::LoadU(d, sent + i));
    const VFloat e = hn::Add(hn::Mul(hn::Set(d, decay), before.at(i)), hn::Mul(hn::Set(d, weight), unsent));
    hn::Store(e, d, next + i);
    max = hn::Max(max, hn::BitCast(di, hn::Abs(e)));
  }
  const float scale = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, max))) / 127.0f;
  const bool is_kept = scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max();
  if (!is_kept) {
    std::memset(state, 0, kResidualBlockWords * sizeof(float));
    return;
  }
  alignas(64) std::int8_t codes[kBlock];
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto code = hn::NearestInt(hn::Div(hn::Load(d, next + i), hn::Set(d, scale)));
    const hn::Rebind<std::int8_t, D> narrow;
    hn::Store(hn::DemoteTo(narrow, code), narrow, codes + i);
  }
  std::memcpy(state, codes, sizeof(codes));
  state[kBlock / sizeof(float)] = scale;
}

void UpdateResidual(const float* encoded, const float* sent, bool is_reset, float decay, float weight, float* state,
                    std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  std::size_t begin = 0;
  for (; begin + kBlock <= n; begin += kBlock, state += kResidualBlockWords) {
    UpdateBlock(encoded + begin, sent + begin, is_reset, decay, weight, state);
  }
  if (begin == n) return;
  float last[2][kBlock] = {};
  std::memcpy(last[0], encoded + begin, (n - begin) * sizeof(float));
  std::memcpy(last[1], sent + begin, (n - begin) * sizeof(float));
  UpdateBlock(last[0], last[1], is_reset, decay, weight, state);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(CompensateAveraged);
HWY_EXPORT(UpdateResidual);

void compensate_averaged(const float* state, bool is_reset, const float* gradient, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(CompensateAveraged)(state, is_reset, gradient, out, count);
}
void update_residual(const float* encoded, const float* sent, bool is_reset, float decay, float weight, float* state,
                     std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(UpdateResidual)(encoded, sent, is_reset, decay, weight, state, count);
}
}  // namespace terngrad::cpu
#endif
