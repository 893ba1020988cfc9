#include "kernels/aggregate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/aggregate.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "kernels/slice.h"

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
  const hn::Rebind<Int, DFloat> d_small;
  const auto v_factor = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    const auto wide = hn::PromoteTo(d_int, hn::LoadU(d_small, values + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), v_factor), d, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(values[i]) * factor;
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void SumWords(std::span<const std::uint32_t* const> words, std::size_t num_words,
                         std::int8_t* HWY_RESTRICT sums) {
  constexpr std::int8_t kCodeOfT2[4] = {0, 1, 0, -1};
  std::memset(sums, 0, num_words * 16);
  for (const std::uint32_t* payload : words) {
    for (std::size_t i = 0; i < num_words * 16; ++i) {
      sums[i] = static_cast<std::int8_t>(sums[i] + kCodeOfT2[payload[i / 16] >> (2 * (i % 16)) & 3]);
    }
  }
}
#else
/// Sums of the codes in `num_words` words of every payload, as bytes in natural order; `sums` has room for a multiple
/// of the vector's words.
HWY_INLINE void SumWords(std::span<const std::uint32_t* const> words, std::size_t num_words,
                         std::int8_t* HWY_RESTRICT sums) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::Repartition<std::int8_t, decltype(d)> d8;
  const hn::Repartition<std::int16_t, decltype(d)> d16;
  const hn::Repartition<std::uint8_t, decltype(d)> du8;
  const std::size_t lanes = hn::Lanes(d);
  const auto pairs = hn::Set(d, 0x03030303u);
  // Code of a pair of bits, in every 128-bit block: 00 zero, 01 plus, 11 minus.
  const auto code_of_pair = hn::BitCast(d8, hn::Set(d, 0xff000100u));
  for (std::size_t word = 0; word < num_words; word += lanes) {
    // Byte m of sum[j] belongs to element 4m + j of its word.
    auto sum0 = hn::Zero(d8);
    auto sum1 = sum0;
    auto sum2 = sum0;
    auto sum3 = sum0;
    const bool whole = word + lanes <= num_words;
    for (const std::uint32_t* payload : words) {
      auto bits = hn::Zero(d);
      if (whole) {
        bits = hn::LoadU(d, payload + word);
      } else {
        HWY_ALIGN std::uint32_t padded[16] = {};
        std::memcpy(padded, payload + word, (num_words - word) * sizeof(std::uint32_t));
        bits = hn::Load(d, padded);
      }
      const auto codes = [&](auto shifted) HWY_ATTR {
        return hn::TableLookupBytes(code_of_pair, hn::BitCast(d8, hn::And(shifted, pairs)));
      };
      sum0 = hn::Add(sum0, codes(bits));
      sum1 = hn::Add(sum1, codes(hn::ShiftRight<2>(bits)));
      sum2 = hn::Add(sum2, codes(hn::ShiftRight<4>(bits)));
      sum3 = hn::Add(sum3, codes(hn::ShiftRight<6>(bits)));
    }
    // Transpose 4 x 4 bytes of every word; block b of part[i] then holds the 16 elements of word 4b + i.
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d8, sum0, sum1));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d8, sum0, sum1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d8, sum2, sum3));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d8, sum2, sum3));
    HWY_ALIGN std::uint8_t parts[4][64];
    hn::Store(hn::BitCast(du8, hn::InterleaveLower(d16, low01, low23)), du8, parts[0]);
    hn::Store(hn::BitCast(du8, hn::InterleaveUpper(d16, low01, low23)), du8, parts[1]);
    hn::Store(hn::BitCast(du8, hn::InterleaveLower(d16, high01, high23)), du8, parts[2]);
    hn::Store(hn::BitCast(du8, hn::InterleaveUpper(d16, high01, high23)), du8, parts[3]);
    for (std::size_t block = 0; block < lanes / 4; ++block) {
      for (std::size_t i = 0; i < 4; ++i) {
        std::memcpy(sums + (word + 4 * block + i) * 16, parts[i] + 16 * block, 16);
      }
    }
  }
}
#endif

/// ScaleIntegers with streaming stores where `out` is aligned for them.
HWY_INLINE void StreamIntegers(const std::int8_t* HWY_RESTRICT values, std::size_t count, float factor,
                               float* HWY_RESTRICT out) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> d_int;
  const hn::Rebind<std::int8_t, DFloat> d_small;
  const auto v_factor = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(out + i) % (kFloatLanes * sizeof(float)) != 0; ++i) {
    out[i] = static_cast<float>(values[i]) * factor;
  }
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    const auto wide = hn::PromoteTo(d_int, hn::LoadU(d_small, values + i));
    hn::Stream(hn::Mul(hn::ConvertTo(d, wide), v_factor), d, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(values[i]) * factor;
  hwy::FlushStream();
}

void SumT2Tile(std::span<const std::uint32_t* const> words, std::int64_t count, float factor, float* HWY_RESTRICT out,
               Stores stores) {
  HWY_ALIGN std::int8_t sums[kChunkElements + 256];
  SumWords(words, static_cast<std::size_t>((count + 15) / 16), sums);
  if (stores == Stores::kStreaming) {
    StreamIntegers(sums, static_cast<std::size_t>(count), factor, out);
  } else {
    ScaleIntegers(sums, static_cast<std::size_t>(count), factor, out);
  }
}

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

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(SumT2Tile);
HWY_EXPORT(Add);
HWY_EXPORT(Scale);
HWY_EXPORT(ScaleSums);

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
void scale_sums(const std::int16_t* sums, std::int64_t count, float factor, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleSums)(sums, count, factor, out);
}
}  // namespace terngrad::cpu
#endif
