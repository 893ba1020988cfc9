#include "nets/cpu/dropout_mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nets/cpu/dropout_mask.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kBlockDraws = 4;

/// The smallest 24-bit integer u with u / 2^24 >= keep_prob: an element is kept if its 24-bit draw is below.
HWY_INLINE std::uint32_t Threshold(float keep_prob) {
  return static_cast<std::uint32_t>(std::ceil(static_cast<double>(keep_prob) * 0x1p24));
}

/// Scalar version: applies the draws of the block that begins at `first_draw` to up to four elements.
HWY_INLINE void ApplyBlock(const DrawKey& key, std::uint64_t first_draw, std::uint32_t threshold, float scale,
                           const float* input, std::size_t count, float* output) {
  const std::array<std::uint32_t, kBlockDraws> words = draw_block(key, first_draw / kBlockDraws);
  for (std::size_t i = 0; i < count; ++i) output[i] = words[i] >> 8 < threshold ? input[i] * scale : 0.0f;
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE std::size_t Step() { return kBlockDraws; }
HWY_INLINE void ApplyStep(const DrawKey& key, std::uint64_t first_draw, std::uint32_t threshold, float scale,
                          const float* input, float* output) {
  ApplyBlock(key, first_draw, threshold, scale, input, kBlockDraws, output);
}
#else
/// 64-bit lanes that hold 32-bit words, one block per lane: one multiplication gives both halves of a product. High
/// halves are unspecified, since products ignore them.
using DLanes = hn::CappedTag<std::uint64_t, 8>;
using VLanes = hn::Vec<DLanes>;
using DWords = hn::Repartition<std::uint32_t, DLanes>;
using DFloats = hn::Repartition<float, DLanes>;
HWY_INLINE std::size_t Step() { return hn::Lanes(DLanes()) * kBlockDraws; }

HWY_INLINE VLanes Multiply(std::uint32_t factor, VLanes words) {
  const DWords d;
  return hn::MulEven(hn::Set(d, factor), hn::BitCast(d, words));
}
HWY_INLINE VLanes Broadcast(std::uint32_t word) { return hn::Set(DLanes(), word); }

/// Philox4x32-10 (kernels/random/philox.h) of a vector of blocks from `first_block`: their words in natural order.
HWY_INLINE void DrawWords(const DrawKey& key, std::uint64_t first_block, std::uint32_t* HWY_RESTRICT words) {
  const DLanes d;
  const VLanes blocks = hn::Add(hn::Set(d, first_block), hn::Iota(d, std::uint64_t{0}));
  const std::array<std::uint32_t, 4> counter = draw_counter(key, 0);  // the stream's counter, without the block number
  VLanes c0 = blocks;
  VLanes c1 = Broadcast(counter[1]);
  VLanes c2 = Broadcast(counter[2]);
  VLanes c3 = hn::Or(hn::And(hn::ShiftRight<32>(blocks), Broadcast(0xffff)), Broadcast(counter[3]));
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const VLanes p0 = Multiply(0xD2511F53u, c0);
    const VLanes p1 = Multiply(0xCD9E8D57u, c2);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), Broadcast(key0));
    c1 = p1;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), Broadcast(key1));
    c3 = p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const VLanes low_half = hn::Set(d, std::uint64_t{0xffffffffu});
  const VLanes words01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
  const VLanes words23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
  hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<std::uint64_t*>(words));
}

HWY_INLINE void ApplyStep(const DrawKey& key, std::uint64_t first_draw, std::uint32_t threshold, float scale,
                          const float* input, float* output) {
  std::uint32_t words[hn::MaxLanes(DLanes()) * kBlockDraws];
  DrawWords(key, first_draw / kBlockDraws, words);
  const DFloats d;
  const DWords du;
  for (std::size_t i = 0; i < Step(); i += hn::Lanes(d)) {
    // Shifted draws and thresholds are far below 2^31, so signed comparison, which every target has, is correct.
    const hn::RebindToSigned<DWords> ds;
    const auto draws = hn::BitCast(ds, hn::ShiftRight<8>(hn::LoadU(du, words + i)));
    const auto is_kept = hn::Lt(draws, hn::Set(ds, static_cast<std::int32_t>(threshold)));
    const auto scaled = hn::Mul(hn::LoadU(d, input + i), hn::Set(d, scale));
    hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, is_kept), scaled), d, output + i);
  }
}
#endif

void Apply(const DrawKey& key, std::uint64_t first_draw, float keep_prob, const float* input, std::int64_t count,
           float* output) {
  const std::uint32_t threshold = Threshold(keep_prob);
  const float scale = 1.0f / keep_prob;
  const auto n = static_cast<std::size_t>(count);
  const std::size_t step = Step();
  std::size_t i = 0;
  for (; i + step <= n; i += step) ApplyStep(key, first_draw + i, threshold, scale, input + i, output + i);
  for (; i < n; i += kBlockDraws) {
    ApplyBlock(key, first_draw + i, threshold, scale, input + i, n - i < kBlockDraws ? n - i : kBlockDraws, output + i);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {

HWY_EXPORT(Apply);

void apply_dropout(const DrawKey& key, std::uint64_t first_draw, float keep_prob, const float* input,
                   std::int64_t count, float* output) {
  HWY_DYNAMIC_DISPATCH(Apply)(key, first_draw, keep_prob, input, count, output);
}

}  // namespace terngrad::cpu
#endif
