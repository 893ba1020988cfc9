#include "kernels/codes/code_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/code_sum.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/tensor/slice.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DFloat = hn::CappedTag<float, 16>;
inline constexpr std::size_t kFloatLanes = hn::MaxLanes(DFloat());

/// out[i] = factor * float(values[i]) for signed integers of any width.
template <class Int>
HWY_INLINE void ScaleIntegers(const Int* HWY_RESTRICT values, std::size_t count, float factor,
                              float* HWY_RESTRICT out) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const auto v_factor = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    auto wide = hn::Zero(d_int);
    if constexpr (sizeof(Int) == sizeof(std::int32_t)) {
      wide = hn::LoadU(d_int, values + i);
    } else {
      wide = hn::PromoteTo(d_int, hn::LoadU(hn::Rebind<Int, DFloat>(), values + i));
    }
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), v_factor), d, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(values[i]) * factor;
}

#if HWY_TARGET == HWY_SCALAR
void SumT2Tile(std::span<const std::uint32_t* const> words, std::int64_t count, float factor, float* HWY_RESTRICT out,
               Stores) {
  constexpr int kCodeOfT2[4] = {0, 1, 0, -1};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    int sum = 0;
    for (const std::uint32_t* payload : words) sum += kCodeOfT2[payload[i / 16] >> (2 * (i % 16)) & 3];
    out[i] = static_cast<float>(sum) * factor;
  }
}
#else
/// Prefetch distance in a payload: eight payloads and the result are more streams than the hardware prefetcher handles
/// well. With 25 million codes, distances of 1 KiB and 2 KiB gave 30.1 and 29.2 GB/s of means, 4 KiB 28.2 (2-core Xeon,
/// AVX-512).
inline constexpr std::size_t kPrefetchWords = 256;

/// For the 16 elements of a word: out[i] = factor * float(sums[i]).
template <bool kStream>
HWY_INLINE void ScaleWord(const std::int8_t* HWY_RESTRICT sums, float factor, float* HWY_RESTRICT out) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::int8_t, DFloat> d_small;
  const auto v_factor = hn::Set(d, factor);
  for (std::size_t i = 0; i < 16; i += kFloatLanes) {
    const auto scaled = hn::Mul(hn::ConvertTo(d, hn::PromoteTo(d_int, hn::LoadU(d_small, sums + i))), v_factor);
    if constexpr (kStream) {
      hn::Stream(scaled, d, out + i);
    } else {
      hn::StoreU(scaled, d, out + i);
    }
  }
}

/// out[i] = factor * sum over payloads of code i. Each vector of words is scaled while its sums are in registers and
/// the first-level cache, so that stores overlap with loads of the next codes.
/// @tparam kStream  streaming stores, if `out` is aligned for them
template <bool kStream>
HWY_INLINE void SumTile(std::span<const std::uint32_t* const> words, std::size_t count, float factor,
                        float* HWY_RESTRICT out) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t num_words = (count + 15) / 16;
  // Flipping the high bit of a 2-bit code yields code + 2: 00 zero, 01 plus, 11 minus become 2, 3, 1. Five such numbers
  // fit four bits. Bytes may wrap around while they are accumulated; subtracting the 2s up front makes the result
  // correct.
  constexpr std::size_t kCodesPerNibble = 5;
  const auto pairs = hn::Set(d, 0x33333333u);
  const auto turned = hn::Set(d, 0x22222222u);
  const auto nibbles = hn::Set(d, 0x0f0f0f0fu);
  const auto bias = hn::Set(d8, static_cast<std::uint8_t>(0 - 2 * words.size()));
  for (std::size_t word = 0; word < num_words; word += lanes) {
    // Byte m of sum<j> is for element 4m + j of its word.
    auto sum0 = bias;
    auto sum1 = bias;
    auto sum2 = bias;
    auto sum3 = bias;
    const bool whole = word + lanes <= num_words;
    for (std::size_t first = 0; first < words.size(); first += kCodesPerNibble) {
      auto even = hn::Zero(d);
      auto odd = hn::Zero(d);
      for (const std::uint32_t* payload : words.subspan(first, std::min(kCodesPerNibble, words.size() - first))) {
        auto bits = hn::Zero(d);
        if (whole) {
          bits = hn::LoadU(d, payload + word);
          hwy::Prefetch(payload + word + kPrefetchWords);
        } else {
          HWY_ALIGN std::uint32_t padded[16] = {};
          std::memcpy(padded, payload + word, (num_words - word) * sizeof(std::uint32_t));
          bits = hn::Load(d, padded);
        }
        even = hn::Add(even, hn::Xor(hn::And(bits, pairs), turned));
        odd = hn::Add(odd, hn::Xor(hn::And(hn::ShiftRight<2>(bits), pairs), turned));
      }
      const auto add = [&](auto sum, auto shifted)
                           HWY_ATTR { return hn::Add(sum, hn::BitCast(d8, hn::And(shifted, nibbles))); };
      sum0 = add(sum0, even);
      sum1 = add(sum1, odd);
      sum2 = add(sum2, hn::ShiftRight<4>(even));
      sum3 = add(sum3, hn::ShiftRight<4>(odd));
    }
    // Transpose the 4 x 4 bytes of every word; block b of parts[i] then holds the 16 elements of word 4b + i.
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d8, sum0, sum1));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d8, sum0, sum1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d8, sum2, sum3));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d8, sum2, sum3));
    HWY_ALIGN std::uint8_t parts[4][64];
    hn::Store(hn::BitCast(d8, hn::InterleaveLower(d16, low01, low23)), d8, parts[0]);
    hn::Store(hn::BitCast(d8, hn::InterleaveUpper(d16, low01, low23)), d8, parts[1]);
    hn::Store(hn::BitCast(d8, hn::InterleaveLower(d16, high01, high23)), d8, parts[2]);
    hn::Store(hn::BitCast(d8, hn::InterleaveUpper(d16, high01, high23)), d8, parts[3]);
    if (word * 16 + lanes * 16 <= count) {
      for (std::size_t block = 0; block < lanes / 4; ++block) {
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < 4; ++i) {
          const auto* sums = reinterpret_cast<const std::int8_t*>(parts[i] + 16 * block);
          ScaleWord<kStream>(sums, factor, out + (word + 4 * block + i) * 16);
        }
      }
    } else {
      std::int8_t sums[256];
      for (std::size_t i = 0; i < lanes; ++i) std::memcpy(sums + i * 16, parts[i % 4] + i / 4 * 16, 16);
      ScaleIntegers(sums, count - word * 16, factor, out + word * 16);
    }
  }
  if constexpr (kStream) hwy::FlushStream();
}

void SumT2Tile(std::span<const std::uint32_t* const> words, std::int64_t count, float factor, float* HWY_RESTRICT out,
               Stores stores) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (kFloatLanes * sizeof(float)) == 0;
  if (stores == Stores::kStreaming && aligned) {
    SumTile<true>(words, static_cast<std::size_t>(count), factor, out);
  } else {
    SumTile<false>(words, static_cast<std::size_t>(count), factor, out);
  }
}
#endif

void Add(const float* a, const float* b, std::int64_t count, float* out) {
  const DFloat d;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = a[i] + b[i];
}

void Scale(const float* values, std::int64_t count, float factor, float* out) {
  const DFloat d;
  const auto n = static_cast<std::size_t>(count);
  const auto v_factor = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) hn::StoreU(hn::Mul(hn::LoadU(d, values + i), v_factor), d, out + i);
  for (; i < n; ++i) out[i] = values[i] * factor;
}

void ScaleSums(const std::int16_t* sums, std::int64_t count, float factor, float* out) {
  ScaleIntegers(sums, static_cast<std::size_t>(count), factor, out);
}

/// Whole words of 16 sums, then the remainder.
template <bool kStream>
HWY_INLINE void ScaleBytes(const std::int8_t* HWY_RESTRICT sums, std::size_t count, float factor,
                           float* HWY_RESTRICT out) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + 16 <= count; i += 16) ScaleWord<kStream>(sums + i, factor, out + i);
  if constexpr (kStream) hwy::FlushStream();
#endif
  ScaleIntegers(sums + i, count - i, factor, out + i);
}

void ScaleByteSums(const std::int8_t* sums, std::int64_t count, float factor, float* out, Stores stores) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (kFloatLanes * sizeof(float)) == 0;
  if (stores == Stores::kStreaming && aligned) {
    ScaleBytes<true>(sums, static_cast<std::size_t>(count), factor, out);
  } else {
    ScaleBytes<false>(sums, static_cast<std::size_t>(count), factor, out);
  }
}

void ScaleWideSums(const std::int32_t* sums, std::int64_t count, float factor, float* out) {
  ScaleIntegers(sums, static_cast<std::size_t>(count), factor, out);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(SumT2Tile);
HWY_EXPORT(Add);
HWY_EXPORT(Scale);
HWY_EXPORT(ScaleSums);
HWY_EXPORT(ScaleByteSums);
HWY_EXPORT(ScaleWideSums);

void sum_t2_tile(std::span<const std::uint32_t* const> words, std::int64_t count, float scale, float* out,
                 Stores stores) {
  HWY_DYNAMIC_DISPATCH(SumT2Tile)(words, count, scale, out, stores);
}
void add(const float* a, const float* b, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(Add)(a, b, count, out);
}
void scale(const float* values, std::int64_t count, float factor, float* out) {
  HWY_DYNAMIC_DISPATCH(Scale)(values, count, factor, out);
}
void scale_sums(const std::int32_t* sums, std::int64_t count, float factor, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleWideSums)(sums, count, factor, out);
}
void scale_sums(const std::int8_t* sums, std::int64_t count, float factor, float* out, Stores stores) {
  HWY_DYNAMIC_DISPATCH(ScaleByteSums)(sums, count, factor, out, stores);
}
void scale_sums(const std::int16_t* sums, std::int64_t count, float factor, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleSums)(sums, count, factor, out);
}
}  // namespace terngrad::cpu
#endif
