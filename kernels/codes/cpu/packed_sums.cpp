#include "kernels/codes/cpu/packed_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/packed_sums.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "kernels/codes/cpu/bit_vectors-inl.h"
#include "kernels/codes/cpu/scatter_bits-inl.h"
#include "kernels/codes/ternary_pack.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Prefetch distances in a payload: several payloads are more streams than the hardware prefetcher handles. For 8 t5
/// messages of 25 million codes one core produced 7.3 GB/s of means with prefetching and 5.2 without (2-core Xeon,
/// AVX-512).
inline constexpr std::size_t kPrefetchedBytes = 512;  // for t5
inline constexpr std::size_t kPrefetchedMasks = 512;
inline constexpr std::size_t kPrefetchedSigns = 256;

#if HWY_TARGET == HWY_SCALAR
void SumT5Bytes(std::span<const std::uint8_t* const> payloads, std::size_t, std::size_t count, std::int8_t* sums) {
  std::fill_n(sums, 5 * count, std::int8_t{0});
  for (const std::uint8_t* payload : payloads) {
    for (std::size_t byte = 0; byte < count; ++byte) {
      for (std::size_t i = 0; i < 5; ++i) {
        sums[5 * byte + i] = static_cast<std::int8_t>(sums[5 * byte + i] + t5_table()[payload[byte]][i]);
      }
    }
  }
}

void SumTMaskWords(const std::uint64_t* nonzero, const std::uint64_t* negative, std::size_t num_payloads,
                   std::int8_t* sums) {
  for (std::size_t i = 0; i < 64; ++i) {
    int sum = 0;
    for (std::size_t k = 0; k < num_payloads; ++k) {
      sum += static_cast<int>(nonzero[k] >> i & 1) - 2 * static_cast<int>(negative[k] >> i & 1);
    }
    sums[i] = static_cast<std::int8_t>(sum);
  }
}
#else
/// 65536 / 243, rounded up. b times this number is the 16-bit fraction b / 243, accurate enough that tripling it five
/// times yields the five base-3 digits of every byte b below 243, highest first.
inline constexpr std::uint16_t kFractionOfByte = 270;

/// Sums the codes in `count` bytes of every payload.
/// @param readable  readable bytes per payload, at least `count`
/// @param sums  [5 (count rounded up to a vector) + 8] out
HWY_INLINE void SumT5Bytes(std::span<const std::uint8_t* const> payloads, std::size_t readable, std::size_t count,
                           std::int8_t* HWY_RESTRICT sums) {
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d_byte;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const std::size_t lanes = hn::Lanes(d);
  const auto fraction = hn::Set(d, kFractionOfByte);
  const auto three = hn::Set(d, std::uint16_t{3});
  // A digit is code + 1.
  const auto bias = hn::Set(d8, static_cast<std::uint8_t>(payloads.size()));
  for (std::size_t byte = 0; byte < count; byte += lanes) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    auto sum4 = hn::Zero(d);
    for (const std::uint8_t* payload : payloads) {
      auto bytes = hn::Zero(d_byte);
      if (byte + lanes <= readable) {
        bytes = hn::LoadU(d_byte, payload + byte);
        hwy::Prefetch(payload + byte + kPrefetchedBytes);
      } else {
        HWY_ALIGN std::uint8_t padded[32] = {};
        std::memcpy(padded, payload + byte, readable - byte);
        bytes = hn::Load(d_byte, padded);
      }
      auto rest = hn::Mul(hn::PromoteTo(d, bytes), fraction);
      sum4 = hn::Add(sum4, hn::MulHigh(rest, three));
      rest = hn::Mul(rest, three);
      sum3 = hn::Add(sum3, hn::MulHigh(rest, three));
      rest = hn::Mul(rest, three);
      sum2 = hn::Add(sum2, hn::MulHigh(rest, three));
      rest = hn::Mul(rest, three);
      sum1 = hn::Add(sum1, hn::MulHigh(rest, three));
      rest = hn::Mul(rest, three);
      sum0 = hn::Add(sum0, hn::MulHigh(rest, three));
    }
    const auto pair = [&](auto low, auto high) HWY_ATTR {
      return hn::BitCast(d, hn::Sub(hn::BitCast(d8, hn::Or(low, hn::ShiftLeft<8>(high))), bias));
    };
    const auto codes01 = pair(sum0, sum1);
    const auto codes23 = pair(sum2, sum3);
    const auto codes4 = pair(sum4, hn::Zero(d));
    const auto low0123 = hn::BitCast(d32, hn::InterleaveLower(d, codes01, codes23));
    const auto high0123 = hn::BitCast(d32, hn::InterleaveUpper(d, codes01, codes23));
    const auto low4 = hn::BitCast(d32, hn::InterleaveLower(d, codes4, codes4));
    const auto high4 = hn::BitCast(d32, hn::InterleaveUpper(d, codes4, codes4));
    // Eight bytes per t5 byte, the first five valid: block b of part q holds those of bytes 8 b + 2 q and 8 b + 2 q +
    // 1.
    HWY_ALIGN std::uint32_t parts[4][16];
    hn::Store(hn::InterleaveLower(d32, low0123, low4), d32, parts[0]);
    hn::Store(hn::InterleaveUpper(d32, low0123, low4), d32, parts[1]);
    hn::Store(hn::InterleaveLower(d32, high0123, high4), d32, parts[2]);
    hn::Store(hn::InterleaveUpper(d32, high0123, high4), d32, parts[3]);
    std::int8_t* out = sums + 5 * byte;
    for (std::size_t block = 0; block < lanes / 8; ++block) {
      HWY_UNROLL(8)
      for (std::size_t i = 0; i < 8; ++i) {
        // The three excess bytes are overwritten by the next copy.
        std::memcpy(out + 5 * i, &parts[i / 2][4 * block + i % 2 * 2], 8);
      }
      out += 40;
    }
  }
}

/// Sums 64 codes of every payload.
HWY_INLINE void SumTMaskWords(const std::uint64_t* nonzero, const std::uint64_t* negative, std::size_t num_payloads,
                              std::int8_t* HWY_RESTRICT sums) {
  const hn::CappedTag<std::int8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto bits_at = [&](const std::uint64_t* words, std::size_t k, std::size_t at) HWY_ATTR {
    return hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(words + k) + at / 8);
  };
  for (std::size_t at = 0; at < 64; at += lanes) {
    auto sum = hn::Zero(d);
    for (std::size_t k = 0; k < num_payloads; ++k) {
      // A set lane of a mask is -1.
      const auto minus = hn::VecFromMask(d, bits_at(negative, k, at));
      sum = hn::Sub(sum, hn::VecFromMask(d, bits_at(nonzero, k, at)));
      sum = hn::Add(sum, hn::Add(minus, minus));
    }
    hn::StoreU(sum, d, sums + at);
  }
}
#endif

void SumT5(std::span<const std::uint8_t* const> payloads, std::size_t readable, std::size_t count, std::int8_t* sums) {
  SumT5Bytes(payloads, readable, count, sums);
}

/// Read position of a payload within a chunk.
struct TMaskCursor {
  const std::uint8_t* masks = nullptr;
  const std::uint8_t* signs = nullptr;
  std::uint64_t sign = 0;       // consumed bits
  std::uint64_t checked = 0;    // from this bit on, fewer than nine bytes of signs may remain
  std::uint64_t num_signs = 0;  // in bytes
};

/// The 64 sign bits at the cursor, with zeros behind the payload's end.
HWY_INLINE std::uint64_t SignsAt(const TMaskCursor& cursor) {
  if (cursor.sign >= cursor.checked) {
    if (cursor.sign >= 8 * cursor.num_signs) return 0;
    return BitsFrom(cursor.signs, static_cast<std::int64_t>(cursor.num_signs), static_cast<std::int64_t>(cursor.sign));
  }
  const std::uint8_t* at = cursor.signs + cursor.sign / 8;
  const auto shift = static_cast<unsigned>(cursor.sign % 8);
  hwy::Prefetch(at + kPrefetchedSigns);
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word >> shift | std::uint64_t{at[8]} << 1 << (63 - shift);
}

void SumTMask(std::span<const TMaskChunk> chunks, std::int64_t count, std::int8_t* sums) {
  // Masks are loaded as 8 bytes at any alignment.
  std::array<std::uint64_t, kMaxPackedPayloads + 1> nonzero{};
  std::array<std::uint64_t, kMaxPackedPayloads + 1> negative{};
  std::array<TMaskCursor, kMaxPackedPayloads> cursors;
  std::int64_t num_mask_bytes = chunks[0].num_mask_bytes;
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    const std::uint64_t bytes = chunks[k].signs.size();
    cursors[k] = {.masks = chunks[k].masks,
                  .signs = chunks[k].signs.data(),
                  .sign = 0,
                  .checked = bytes > 8 ? 8 * (bytes - 8) : 0,
                  .num_signs = bytes};
    num_mask_bytes = std::min(num_mask_bytes, chunks[k].num_mask_bytes);
  }
  for (std::int64_t i = 0; i < count; i += 64) {
    const bool is_whole = i / 8 + 8 <= num_mask_bytes;
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      TMaskCursor& cursor = cursors[k];
      std::uint64_t mask = 0;
      if (is_whole) {
        std::memcpy(&mask, cursor.masks + i / 8, sizeof(mask));
        hwy::Prefetch(cursor.masks + i / 8 + kPrefetchedMasks);
      } else {
        std::memcpy(&mask, cursor.masks + i / 8, static_cast<std::size_t>(num_mask_bytes - i / 8));
      }
      nonzero[k] = mask;
      negative[k] = ScatterBits(SignsAt(cursor), mask);
      cursor.sign += static_cast<std::uint64_t>(std::popcount(mask));
    }
    SumTMaskWords(nonzero.data(), negative.data(), chunks.size(), sums + i);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(SumT5);
HWY_EXPORT(SumTMask);

const std::int8_t* sum_t5_codes(std::span<const std::uint8_t* const> payloads, std::int64_t payload_bytes,
                                std::int64_t first, std::int64_t count, std::int8_t* room) {
  std::array<const std::uint8_t*, kMaxPackedPayloads> bytes;
  for (std::size_t k = 0; k < payloads.size(); ++k) bytes[k] = payloads[k] + first / 5;
  const std::int64_t skipped = first % 5;
  HWY_DYNAMIC_DISPATCH(SumT5)
  ({bytes.data(), payloads.size()}, static_cast<std::size_t>(payload_bytes - first / 5),
   static_cast<std::size_t>((skipped + count + 4) / 5), room);
  return room + skipped;
}

void sum_tmask_codes(std::span<const TMaskChunk> chunks, std::int64_t count, std::int8_t* sums) {
  HWY_DYNAMIC_DISPATCH(SumTMask)(chunks, count, sums);
}
}  // namespace terngrad::cpu
#endif
