// The arithmetic of ternarizing one chunk: draws, comparison, bit planes.
#include "kernels/ternarize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ternarize_chunk.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DFloat = hn::CappedTag<float, 16>;
inline constexpr std::size_t kFloatLanes = hn::MaxLanes(DFloat());
/// Philox blocks of a chunk: each gives 16 bits to 8 elements.
inline constexpr std::size_t kBlocksPerChunk = std::size_t{kChunkElements} / 8;
/// Blocks worked on at once may run past the chunk's end by this many.
inline constexpr std::size_t kSpareBlocks = 32;

/// Draws by the definition.
HWY_INLINE void FillDrawsPlain(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                               std::uint16_t* HWY_RESTRICT draws) {
  for (std::size_t block = 0; block < num_blocks; ++block) {
    const std::array<std::uint32_t, 4> words = draw_block(key, first_block + block);
    for (std::size_t i = 0; i < 8; ++i) {
      draws[block * 8 + i] = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::uint16_t* HWY_RESTRICT draws) {
  FillDrawsPlain(key, first_block, num_blocks, draws);
}
#else
/// 64-bit lanes that hold 32-bit words: one multiplication gives the high and the low half of a product.
using DWords = hn::CappedTag<std::uint64_t, 8>;
using VWords = hn::Vec<DWords>;
using DHalves = hn::Repartition<std::uint32_t, DWords>;
inline constexpr std::size_t kBlocksPerVector = hn::MaxLanes(DWords());

HWY_INLINE VWords Multiply(VWords a, VWords b) {
  const DHalves d;
  return hn::MulEven(hn::BitCast(d, a), hn::BitCast(d, b));
}
HWY_INLINE VWords Broadcast(std::uint32_t word) { return hn::Set(DWords(), word); }
HWY_INLINE VWords High(VWords product) { return hn::ShiftRight<32>(product); }

/// The scalars of ten rounds for one chunk: only c0 differs between its blocks, so what depends on c1, c2 and c3 alone
/// in the first two rounds is worked out once.
struct PhiloxPlan {
  std::array<std::uint32_t, 10> key0, key1;
  std::uint32_t first_c0 = 0;   // c0 of the chunk's first block
  std::uint32_t round1_c0 = 0;  // after round 1: the word that does not depend on the block
  std::uint32_t round1_c2 = 0;  // c3 ^ key1: what round 1 adds to the high half for c2
  std::uint32_t round2_c0 = 0;  // round1 c1 ^ key0: what round 2 adds for c0
  std::uint32_t round2_c2 = 0;  // high half of M0 * round1_c0, ^ key1
  std::uint32_t round2_c3 = 0;  // low half of M0 * round1_c0
};

HWY_INLINE PhiloxPlan MakePhiloxPlan(const DrawKey& key, std::uint64_t first_block) {
  PhiloxPlan plan;
  const std::array<std::uint32_t, 4> counter = draw_counter(key, first_block);
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (std::size_t round = 0; round < 10; ++round) {
    plan.key0[round] = key0;
    plan.key1[round] = key1;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  plan.first_c0 = counter[0];
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
  plan.round1_c0 = static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ plan.key0[0];
  plan.round1_c2 = counter[3] ^ plan.key1[0];
  const auto round1_c1 = static_cast<std::uint32_t>(product1);
  plan.round2_c0 = round1_c1 ^ plan.key0[1];
  const std::uint64_t product2 = std::uint64_t{0xD2511F53u} * plan.round1_c0;
  plan.round2_c2 = static_cast<std::uint32_t>(product2 >> 32) ^ plan.key1[1];
  plan.round2_c3 = static_cast<std::uint32_t>(product2);
  return plan;
}

/// `kGroups` vectors of blocks at once, to hide the latency of the multiplications. `c0` comes in as the first counter
/// word; out come for each group the four output words of its blocks as elements' 16-bit draws in natural order.
template <std::size_t kGroups>
HWY_INLINE void PhiloxBlocks(const PhiloxPlan& plan, VWords (&c0)[kGroups], std::uint16_t* HWY_RESTRICT draws) {
  const DWords d;
  const VWords m0 = Broadcast(0xD2511F53u);
  const VWords m1 = Broadcast(0xCD9E8D57u);
  VWords c1[kGroups], c2[kGroups], c3[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) {
    // Rounds 1 and 2, less what is the same for all blocks. High halves of words may hold anything: products ignore
    // them.
    const VWords p0 = Multiply(m0, c0[g]);
    const VWords word2 = hn::Xor(High(p0), Broadcast(plan.round1_c2));
    const VWords p1 = Multiply(m1, word2);
    c0[g] = hn::Xor(High(p1), Broadcast(plan.round2_c0));
    c1[g] = p1;
    c2[g] = hn::Xor(p0, Broadcast(plan.round2_c2));
    c3[g] = Broadcast(plan.round2_c3);
  }
  HWY_UNROLL(8)
  for (std::size_t round = 2; round < 9; ++round) {
    const VWords key0 = Broadcast(plan.key0[round]);
    const VWords key1 = Broadcast(plan.key1[round]);
    HWY_UNROLL(8)
    for (std::size_t g = 0; g < kGroups; ++g) {
      const VWords p0 = Multiply(m0, c0[g]);
      const VWords p1 = Multiply(m1, c2[g]);
      c0[g] = hn::Xor3(High(p1), c1[g], key0);
      c1[g] = p1;
      c2[g] = hn::Xor3(High(p0), c3[g], key1);
      c3[g] = p0;
    }
  }
  // Round 10, with the words put together in pairs: rotating a product gives (high, low) = (word 0 or 2 before the
  // exclusive or, word 1 or 3) in memory order.
  const VWords low_half = hn::Set(d, 0xffffffffu);
  const VWords key0 = Broadcast(plan.key0[9]);
  const VWords key1 = Broadcast(plan.key1[9]);
  HWY_UNROLL(8)
  for (std::size_t g = 0; g < kGroups; ++g) {
    const VWords p0 = hn::RotateRight<32>(Multiply(m0, c0[g]));
    const VWords p1 = hn::RotateRight<32>(Multiply(m1, c2[g]));
    const VWords words01 = hn::Xor(p1, hn::And(hn::Xor(c1[g], key0), low_half));
    const VWords words23 = hn::Xor(p0, hn::And(hn::Xor(c3[g], key1), low_half));
    std::uint16_t* out = draws + g * kBlocksPerVector * 8;
    // Lanes hold blocks in the order 0, n/2, 1, n/2 + 1, ..., so that interleaving within 128 bits ends in natural
    // order.
    hn::StoreU(hn::InterleaveLower(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out));
    hn::StoreU(hn::InterleaveUpper(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out) + kBlocksPerVector);
  }
}

/// The 16-bit draws of a chunk whose first element has draw index 8 * first_block.
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::uint16_t* HWY_RESTRICT draws) {
  // The vectors count in the low word of the block index only.
  if (first_block >> 32 != (first_block + num_blocks) >> 32) return FillDrawsPlain(key, first_block, num_blocks, draws);
  constexpr std::size_t kGroups = 4;
  static_assert(kGroups * kBlocksPerVector <= kSpareBlocks);
  const DWords d;
  const PhiloxPlan plan = MakePhiloxPlan(key, first_block);
  alignas(64) std::uint64_t lane_blocks[kBlocksPerVector];
  for (std::size_t lane = 0; lane < kBlocksPerVector; ++lane) {
    lane_blocks[lane] = lane / 2 + lane % 2 * (kBlocksPerVector / 2);
  }
  VWords c0 = hn::Add(hn::Load(d, lane_blocks), Broadcast(plan.first_c0));
  const VWords step = hn::Set(d, kBlocksPerVector);
  for (std::size_t block = 0; block < num_blocks; block += kGroups * kBlocksPerVector) {
    VWords counters[kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) {
      counters[g] = c0;
      c0 = hn::Add(c0, step);
    }
    PhiloxBlocks<kGroups>(plan, counters, draws + block * 8);
  }
}
#endif  // HWY_TARGET == HWY_SCALAR

/// Whether an element on a tie (or at full scale) is non-zero.
HWY_INLINE bool ResolveTie(float magnitude, float scaler, float inverse, const DrawKey& refine_key,
                           std::uint64_t draw_index) {
  if (magnitude >= scaler) return true;
  const float t = magnitude * inverse * 65536.0f;
  const float fraction = t - std::floor(t);
  return static_cast<float>(draw32(refine_key, draw_index) >> 8) < fraction * 0x1p24f;
}

/// Lane i's flag in bit i. The local is as wide as what StoreMaskBits writes: a wider one would be read before the
/// store could be forwarded.
template <class Mask>
HWY_INLINE std::uint64_t MaskBits(Mask mask) {
  std::conditional_t<kFloatLanes == 16, std::uint16_t, std::uint8_t> bits = 0;
  hn::StoreMaskBits(DFloat(), mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

/// The sign bit of lane i in bit i.
HWY_INLINE std::uint64_t SignBits(hn::Vec<DFloat> value) {
#if HWY_TARGET == HWY_SCALAR
  return std::signbit(hn::GetLane(value)) ? 1 : 0;
#else
  return MaskBits(
      hn::MaskFromVec(hn::BitCast(DFloat(), hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<DFloat>(), value)))));
#endif
}

/// Elements [0, count) with one scaler into bit planes; count is a multiple of 64 or the chunk's end.
struct Run {
  const float* gradient;
  std::size_t count;
  float scaler;
  float clip;
  std::uint64_t draw_index;  // of the first element
  const std::uint16_t* draws;
  const float* prefetch;  // may be null
};

template <bool kClip>
HWY_INLINE void CompareRun(const Run& run, const DrawKey& refine_key, std::uint64_t* HWY_RESTRICT nonzero,
                           std::uint64_t* HWY_RESTRICT negative) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::uint16_t, DFloat> d_draw;
  const float inverse = 1.0f / run.scaler;
  const auto v_inverse = hn::Set(d, inverse);
  const auto v_levels = hn::Set(d, 65536.0f);
  const auto v_one = hn::Set(d, 1.0f);
  const auto v_clip = hn::Set(d, run.clip);
  constexpr std::size_t kVectors = 64 / kFloatLanes;
  alignas(64) float padded[64];
  for (std::size_t begin = 0; begin < run.count; begin += 64) {
    const float* HWY_RESTRICT g = run.gradient + begin;
    const std::size_t left = run.count - begin;
    if (left < 64) {
      // The ragged tail, filled up with zeros, which give code 0.
      std::memset(padded, 0, sizeof(padded));
      std::memcpy(padded, g, left * sizeof(float));
      g = padded;
    }
    if (run.prefetch != nullptr) {
      for (std::size_t line = 0; line < 64; line += 16) hwy::Prefetch(run.prefetch + begin + line);
    }
    std::uint64_t certain = 0;
    std::uint64_t tied = 0;
    std::uint64_t sign = 0;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t i = v * kFloatLanes;
      const auto value = hn::LoadU(d, g + i);
      auto magnitude = hn::Abs(value);
      if constexpr (kClip) magnitude = hn::Min(magnitude, v_clip);
      const auto t = hn::Mul(hn::Mul(magnitude, v_inverse), v_levels);
      const auto r = hn::ConvertTo(d, hn::PromoteTo(d_int, hn::LoadU(d_draw, run.draws + begin + i)));
      // r16 < floor(t) is r + 1 <= t, and t - 1 is exact where that can hold; r16 == floor(t) is r <= t otherwise.
      const auto below = hn::Ge(hn::Sub(t, v_one), r);
      const auto at_most = hn::Ge(t, r);
      const std::uint64_t below_bits = MaskBits(below);
      const std::uint64_t at_most_bits = MaskBits(at_most);
      const std::uint64_t sign_bits = SignBits(value);
      certain |= below_bits << i;
      tied |= (at_most_bits & ~below_bits) << i;
      sign |= sign_bits << i;
    }
    while (HWY_UNLIKELY(tied != 0)) {
      const auto i = static_cast<std::size_t>(std::countr_zero(tied));
      tied &= tied - 1;
      float magnitude = std::fabs(g[i]);
      if constexpr (kClip) magnitude = std::min(magnitude, run.clip);
      if (ResolveTie(magnitude, run.scaler, inverse, refine_key, run.draw_index + begin + i)) {
        certain |= std::uint64_t{1} << i;
      }
    }
    nonzero[begin / 64] = certain;
    negative[begin / 64] = sign & certain;
  }
}

void TernarizeChunk(const TernarizeTask& task, std::int64_t begin, std::int64_t count, const DrawKey& key,
                    DrawPurpose refine_purpose, const float* prefetch, CodePlanes& planes) {
  alignas(64) std::uint16_t draws[(kBlocksPerChunk + kSpareBlocks) * 8];
  const auto draw_index = static_cast<std::uint64_t>(task.draw_offset + task.first + begin);
  DrawKey refine_key = key;
  refine_key.purpose = refine_purpose;
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
    if (!(scaler >= kMinScaler)) {  // too small, or NaN
      const auto num_words = static_cast<std::size_t>((run_count + 63) / 64);
      std::memset(planes.nonzero + words, 0, num_words * 8);
      std::memset(planes.negative + words, 0, num_words * 8);
    } else {
      if (!have_draws) {
        FillDraws(key, draw_index / 8, static_cast<std::size_t>((count + 7) / 8), draws);
        have_draws = true;
      }
      const Run run{task.gradient + begin + done,
                    static_cast<std::size_t>(run_count),
                    scaler,
                    task.clips == nullptr ? 0.0f : task.clips[block],
                    draw_index + static_cast<std::uint64_t>(done),
                    draws + done,
                    prefetch == nullptr ? nullptr : prefetch + done};
      if (task.clips == nullptr) {
        CompareRun<false>(run, refine_key, planes.nonzero + words, planes.negative + words);
      } else {
        CompareRun<true>(run, refine_key, planes.nonzero + words, planes.negative + words);
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
void ternarize_chunk(const TernarizeTask& task, std::int64_t begin, std::int64_t count, const DrawKey& key,
                     DrawPurpose refine_purpose, const float* prefetch, CodePlanes& planes) {
  HWY_DYNAMIC_DISPATCH(TernarizeChunk)(task, begin, count, key, refine_purpose, prefetch, planes);
}
}  // namespace terngrad::cpu
#endif
