// The arithmetic of ternarizing one chunk: draws, comparison, bit planes.
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/ternarize_chunk.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
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
/// What is fetched while a block is drawn: 8 elements, and in steps of a line of the cache.
inline constexpr std::size_t kBytesPerBlock = 8 * sizeof(float);
inline constexpr std::size_t kLineBytes = 64;

/// Where the draw of element i is kept. AVX-512 compares 32 draws at once against levels packed from two vectors of 16,
/// which come interleaved in fours: 0-3, 16-19, 4-7, 20-23, ...; its draws are kept in that order.
HWY_INLINE std::size_t DrawPlace(std::size_t i) {
#if HWY_TARGET == HWY_AVX3
  return i / 32 * 32 + i / 4 % 4 * 8 + i / 16 % 2 * 4 + i % 4;
#else
  return i;
#endif
}

/// Draws by the definition.
HWY_INLINE void FillDrawsPlain(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                               std::uint16_t* HWY_RESTRICT draws) {
  for (std::size_t block = 0; block < num_blocks; ++block) {
    const std::array<std::uint32_t, 4> words = draw_block(key, first_block + block);
    for (std::size_t i = 0; i < 8; ++i) {
      draws[DrawPlace(block * 8 + i)] = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::span<const std::byte>, std::uint16_t* HWY_RESTRICT draws) {
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
#if HWY_TARGET == HWY_AVX3
    // Lanes hold blocks in the order 0, 2, 1, 3, 4, 6, 5, 7; see DrawPlace.
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_store_si512(out, _mm512_permutex2var_epi64(words01.raw, first, words23.raw));
    _mm512_store_si512(out + 32, _mm512_permutex2var_epi64(words01.raw, second, words23.raw));
#else
    // Lanes hold blocks in the order 0, n/2, 1, n/2 + 1, ..., so that interleaving within 128 bits ends in natural
    // order.
    hn::StoreU(hn::InterleaveLower(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out));
    hn::StoreU(hn::InterleaveUpper(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out) + kBlocksPerVector);
#endif
  }
}

/// The 16-bit draws of a chunk whose first element has draw index 8 * first_block. Meanwhile fetches `prefetch`, at
/// most 4 bytes per draw, as drawing leaves the memory idle.
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::span<const std::byte> prefetch, std::uint16_t* HWY_RESTRICT draws) {
  // The vectors count in the low word of the block index only.
  if (first_block >> 32 != (first_block + num_blocks) >> 32) return FillDrawsPlain(key, first_block, num_blocks, draws);
  constexpr std::size_t kGroups = 4;
  static_assert(kGroups * kBlocksPerVector <= kSpareBlocks);
  const DWords d;
  const PhiloxPlan plan = MakePhiloxPlan(key, first_block);
  alignas(64) std::uint64_t lane_blocks[kBlocksPerVector];
  for (std::size_t lane = 0; lane < kBlocksPerVector; ++lane) {
    // AVX-512: within fours; see PhiloxBlocks.
    const std::size_t group = HWY_TARGET == HWY_AVX3 ? 4 : kBlocksPerVector;
    lane_blocks[lane] = lane / group * group + lane % group / 2 + lane % 2 * (group / 2);
  }
  VWords c0 = hn::Add(hn::Load(d, lane_blocks), Broadcast(plan.first_c0));
  const VWords step = hn::Set(d, kBlocksPerVector);
  for (std::size_t block = 0; block < num_blocks; block += kGroups * kBlocksPerVector) {
    VWords counters[kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) {
      counters[g] = c0;
      c0 = hn::Add(c0, step);
    }
    const std::size_t fetched = std::min(prefetch.size(), (block + kGroups * kBlocksPerVector) * kBytesPerBlock);
    for (std::size_t i = block * kBytesPerBlock; i < fetched; i += kLineBytes) hwy::Prefetch(prefetch.data() + i);
    PhiloxBlocks<kGroups>(plan, counters, draws + block * 8);
  }
}
#endif  // HWY_TARGET == HWY_SCALAR

/// Whether an element on a tie (or at full scale) is non-zero.
HWY_INLINE bool ResolveTie(float magnitude, float scaler, float inverse, const DrawKey& refine_key,
                           std::uint64_t draw_index) {
  if (magnitude >= scaler) return true;
  const float t = magnitude * inverse * 65536.0f;
  if (t >= 65536.0f) return true;  // rounding brought it up to full scale: above every draw
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
  float clip;                // infinity: none
  std::uint64_t draw_index;  // of the first element
  const std::uint16_t* draws;
};

/// Adds the elements among `tied` whose refinement bits decide for non-zero.
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
/// Bits of 64 elements from the interleaved order of two packed vectors (DrawPlace) to natural order.
HWY_INLINE std::uint64_t NaturalOrder(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t kLow = 0x0f0f0f0fu;
  const std::uint64_t low = _pext_u32(first, kLow) | std::uint64_t{_pext_u32(second, kLow)} << 32;
  const std::uint64_t high = _pext_u32(first, ~kLow) | std::uint64_t{_pext_u32(second, ~kLow)} << 32;
  return low | high << 16;
}

/// Codes of 64 elements: levels of two vectors are packed to 16 bits, so that 32 elements are compared at once.
HWY_INLINE void Compare64(const Run& run, const DrawKey& refine_key, std::size_t begin, const float* HWY_RESTRICT g,
                          std::uint64_t& nonzero, std::uint64_t& negative) {
  // Magnitudes are cut at s as well as at the clip: from s on all codes are +-1. One multiplication serves for m * inv
  // * 65536: the two differ only where the first underflows, and then in what a tie decides.
  const __m512 limit = _mm512_set1_ps(std::min(run.scaler, run.clip));
  const __m512 factor = _mm512_set1_ps(1.0f / run.scaler * 65536.0f);
  std::uint32_t below[2];
  std::uint32_t tied[2];
  std::uint32_t sign[2];
  HWY_UNROLL(2)
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512 a = _mm512_loadu_ps(g + 32 * half);
    const __m512 b = _mm512_loadu_ps(g + 32 * half + 16);
    constexpr int kLesserMagnitude = 2 | 2 << 2;  // of the two, sign cleared
    const __m512 magnitude_a = _mm512_range_ps(a, limit, kLesserMagnitude);
    const __m512 magnitude_b = _mm512_range_ps(b, limit, kLesserMagnitude);
    // Level 65536 saturates to 65535: such elements tie with draw 65535, and ResolveTie makes them non-zero.
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
/// Codes of 64 elements.
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
    // r16 < floor(t) is r + 1 <= t, and t - 1 is exact where that can hold; r16 == floor(t) is r <= t otherwise.
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
    // The ragged tail, filled up with zeros, which give code 0.
    alignas(64) float padded[64] = {};
    std::memcpy(padded, run.gradient + begin, (run.count - begin) * sizeof(float));
    Compare64(run, refine_key, begin, padded, nonzero[begin / 64], negative[begin / 64]);
  }
}

void TernarizeChunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                    const DrawKey& key, DrawPurpose refine_purpose, std::span<const std::byte> prefetch,
                    CodePlanes& planes) {
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
        FillDraws(key, draw_index / 8, static_cast<std::size_t>((count + 7) / 8), prefetch, draws);
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
                     const DrawKey& key, DrawPurpose refine_purpose, std::span<const std::byte> prefetch,
                     CodePlanes& planes) {
  HWY_DYNAMIC_DISPATCH(TernarizeChunk)(task, gradient, begin, count, key, refine_purpose, prefetch, planes);
}
}  // namespace terngrad::cpu
#endif
