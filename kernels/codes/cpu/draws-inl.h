// Draws for whole chunks, and mask bits, for kernels that are compiled once per SIMD target: include it after
// <hwy/foreach_target.h> and before HWY_BEFORE_NAMESPACE in a file that foreach_target.h re-includes.
#if defined(TERNGRAD_KERNELS_CODES_CPU_DRAWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERNGRAD_KERNELS_CODES_CPU_DRAWS_INL_H
#undef TERNGRAD_KERNELS_CODES_CPU_DRAWS_INL_H
#else
#define TERNGRAD_KERNELS_CODES_CPU_DRAWS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/codes/cpu/chunk_draws.h"
#include "kernels/random/philox.h"
#include "kernels/random/strata.h"
#include "kernels/tensor/slice.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DFloat = hn::CappedTag<float, 16>;
inline constexpr std::size_t kFloatLanes = hn::MaxLanes(DFloat());
/// Philox blocks per chunk: each block has eight 16-bit draws.
inline constexpr std::size_t kBlocksPerChunk = std::size_t{kChunkElements} / 8;
/// Blocks that one vectorized step may generate past the chunk's end.
inline constexpr std::size_t kSpareBlocks = ChunkDraws::kSpare / 8;
/// Bytes of float32 elements per Philox block, prefetched while the block is drawn, and the size of a cache line.
inline constexpr std::size_t kBytesPerBlock = 8 * sizeof(float);
inline constexpr std::size_t kLineBytes = 64;

/// Storage order of draws.
enum class DrawOrder {
  kNatural,
  /// The order in which packing interleaves two vectors of elements: 0-3, 16-19, 4-7, 20-23, ... on AVX-512; 0-3, 8-11,
  /// 4-7, 12-15, ... on AVX2; on other targets the natural order.
  kPacked,
};

/// Storage index of the draw for element i.
template <DrawOrder kOrder>
HWY_INLINE std::size_t DrawPlace(std::size_t i) {
  if constexpr (kOrder == DrawOrder::kPacked && HWY_TARGET == HWY_AVX3) {
    return i / 32 * 32 + i / 4 % 4 * 8 + i / 16 % 2 * 4 + i % 4;
  }
  if constexpr (kOrder == DrawOrder::kPacked && HWY_TARGET == HWY_AVX2) {
    return i / 16 * 16 + i / 4 % 2 * 8 + i / 8 % 2 * 4 + i % 4;
  }
  return i;
}

/// Scalar implementation, straight from the definition.
template <DrawOrder kOrder>
HWY_INLINE void FillDrawsPlain(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                               std::uint16_t* HWY_RESTRICT draws) {
  for (std::size_t block = 0; block < num_blocks; ++block) {
    const std::array<std::uint32_t, 4> words = draw_block(key, first_block + block);
    for (std::size_t i = 0; i < 8; ++i) {
      draws[DrawPlace<kOrder>(block * 8 + i)] = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
template <DrawOrder kOrder>
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::span<const std::byte>, std::uint16_t* HWY_RESTRICT draws) {
  FillDrawsPlain<kOrder>(key, first_block, num_blocks, draws);
}
#else
/// 64-bit lanes that hold 32-bit words: one multiplication yields the high and low half of a product.
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

/// Scalars of the ten rounds for one chunk. Blocks of a chunk differ in c0 only, so the parts of the first two rounds
/// that depend only on c1, c2 and c3 are computed once.
struct PhiloxPlan {
  std::array<std::uint32_t, 10> key0, key1;
  std::uint32_t first_c0 = 0;   // c0 of the chunk's first block
  std::uint32_t round1_c0 = 0;  // c0 after round 1; the same for all blocks
  std::uint32_t round1_c2 = 0;  // c3 ^ key1: operand of round 1 for c2
  std::uint32_t round2_c0 = 0;  // round1 c1 ^ key0: operand of round 2 for c0
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

/// Processes `kGroups` vectors of blocks at once to hide the latency of multiplications. `c0` is the first counter word
/// on input; writes the four output words of each block as eight 16-bit draws.
template <DrawOrder kOrder, std::size_t kGroups>
HWY_INLINE void PhiloxBlocks(const PhiloxPlan& plan, VWords (&c0)[kGroups], std::uint16_t* HWY_RESTRICT draws) {
  const DWords d;
  const VWords m0 = Broadcast(0xD2511F53u);
  const VWords m1 = Broadcast(0xCD9E8D57u);
  VWords c1[kGroups], c2[kGroups], c3[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) {
    // Rounds 1 and 2, without the parts shared by all blocks. High halves of lanes may hold anything: multiplications
    // ignore them.
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
  // Round 10, combining words in pairs: a rotated product holds (word 0 or 2 before the XOR, word 1 or 3) in memory
  // order.
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
    if constexpr (kOrder == DrawOrder::kPacked) {
      // Lanes hold blocks in the order 0, 2, 1, 3, 4, 6, 5, 7; see DrawPlace.
      const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
      const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
      _mm512_store_si512(out, _mm512_permutex2var_epi64(words01.raw, first, words23.raw));
      _mm512_store_si512(out + 32, _mm512_permutex2var_epi64(words01.raw, second, words23.raw));
      continue;
    }
#elif HWY_TARGET == HWY_AVX2
    if constexpr (kOrder == DrawOrder::kPacked) {
      // Lanes hold blocks in the order 0, 1, 2, 3.
      auto* vectors = reinterpret_cast<__m256i*>(out);
      _mm256_store_si256(vectors, _mm256_permute2x128_si256(words01.raw, words23.raw, 0x20));
      _mm256_store_si256(vectors + 1, _mm256_permute2x128_si256(words01.raw, words23.raw, 0x31));
      continue;
    }
#endif
    // Lanes hold blocks in the order 0, n/2, 1, n/2 + 1, ...; interleaving within 128 bits then yields the natural
    // order.
    hn::StoreU(hn::InterleaveLower(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out));
    hn::StoreU(hn::InterleaveUpper(d, words01, words23), d, reinterpret_cast<std::uint64_t*>(out) + kBlocksPerVector);
  }
}

/// Generates the 16-bit draws of a chunk whose first element has draw index 8 * first_block. Prefetches `prefetch` at
/// the same time, at most 4 bytes per draw, since generating draws leaves the memory idle.
template <DrawOrder kOrder>
HWY_INLINE void FillDraws(const DrawKey& key, std::uint64_t first_block, std::size_t num_blocks,
                          std::span<const std::byte> prefetch, std::uint16_t* HWY_RESTRICT draws) {
  // The vectorized counter covers the low word of the block index only.
  if (first_block >> 32 != (first_block + num_blocks) >> 32) {
    return FillDrawsPlain<kOrder>(key, first_block, num_blocks, draws);
  }
  constexpr std::size_t kGroups = 4;
  static_assert(kGroups * kBlocksPerVector <= kSpareBlocks);
  const DWords d;
  const PhiloxPlan plan = MakePhiloxPlan(key, first_block);
  alignas(64) std::uint64_t lane_blocks[kBlocksPerVector];
  for (std::size_t lane = 0; lane < kBlocksPerVector; ++lane) {
    // Packed, see PhiloxBlocks: AVX-512 interleaves within groups of four, AVX2 not at all.
    constexpr bool kIsPacked = kOrder == DrawOrder::kPacked;
    const std::size_t group = kIsPacked && HWY_TARGET == HWY_AVX3 ? 4 : kBlocksPerVector;
    const std::size_t block = lane / group * group + lane % group / 2 + lane % 2 * (group / 2);
    lane_blocks[lane] = kIsPacked && HWY_TARGET == HWY_AVX2 ? lane : block;
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
    PhiloxBlocks<kOrder, kGroups>(plan, counters, draws + block * 8);
  }
}
#endif  // HWY_TARGET == HWY_SCALAR

/// Fills the draws of a chunk of `count` elements, unless they are filled. @param draw_index  of its first element
template <DrawOrder kOrder>
HWY_INLINE void FillOnce(const DrawKey& key, std::uint64_t draw_index, std::int64_t count,
                         std::span<const std::byte> prefetch, ChunkDraws& draws) {
  if (draws.are_filled) return;
  FillDraws<kOrder>(key, draw_index / 8, static_cast<std::size_t>((count + 7) / 8), prefetch, draws.values);
  draws.are_filled = true;
}

/// 16-bit draws of a stratum from the shared ones.
HWY_INLINE hn::Vec<hn::RebindToSigned<DFloat>> OfStratum(hn::Vec<hn::RebindToSigned<DFloat>> shared,
                                                         hn::Vec<DFloat> value, const Stratum& stratum) {
  const hn::RebindToSigned<DFloat> d;
  const auto moved = hn::Add(shared, hn::Set(d, static_cast<std::int32_t>(stratum.offset)));
  const auto mirror = hn::Set(d, stratum.mirrored != 0 ? -1 : 0);
  const auto flips = hn::Xor(hn::BroadcastSignBit(hn::BitCast(d, value)), mirror);
  return hn::And(hn::Xor(moved, flips), hn::Set(d, 0xffff));
}

/// Bit i is lane i's flag. The local has exactly the width that StoreMaskBits writes: loading a wider one would prevent
/// store forwarding.
template <class Mask>
HWY_INLINE std::uint64_t MaskBits(Mask mask) {
  std::conditional_t<kFloatLanes == 16, std::uint16_t, std::uint8_t> bits = 0;
  hn::StoreMaskBits(DFloat(), mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
