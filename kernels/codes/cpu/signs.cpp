// Packs sign bits of elements, and expands them to values.
#include "kernels/codes/signs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/signs.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/codes/cpu/bit_vectors-inl.h"
#include "kernels/codes/cpu/draws-inl.h"

#include <algorithm>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Writes the sign bits of 64 elements. Masks are stored directly into the word: reading a word back before all its
/// parts have left the store buffer would stall.
/// @param is_negative  returns the mask for a vector
template <class IsNegative>
HWY_INLINE void StoreSigns64(const float* HWY_RESTRICT g, const IsNegative& is_negative,
                             std::uint64_t* HWY_RESTRICT word) {
  const DFloat d;
  if constexpr (kFloatLanes >= 8) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(word);
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < 64; i += kFloatLanes) {
      hn::StoreMaskBits(d, is_negative(hn::LoadU(d, g + i), i), bytes + i / 8);
    }
  } else {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 64; i += kFloatLanes) bits |= MaskBits(is_negative(hn::LoadU(d, g + i), i)) << i;
    *word = bits;
  }
}

template <class IsNegative>
HWY_INLINE void StoreSigns(const float* HWY_RESTRICT gradient, std::int64_t num_elements, const IsNegative& is_negative,
                           std::uint64_t* HWY_RESTRICT words) {
  const auto count = static_cast<std::size_t>(num_elements);
  std::size_t begin = 0;
  for (; begin + 64 <= count; begin += 64) StoreSigns64(gradient + begin, is_negative, words++);
  if (begin < count) {
    // The partial tail, padded with numbers whose bit is 0.
    alignas(64) float padded[64];
    std::fill(std::begin(padded), std::end(padded), 1.0f);
    std::memcpy(padded, gradient + begin, (count - begin) * sizeof(float));
    StoreSigns64(padded, is_negative, words);
  }
}

void SignWords(const float* gradient, std::int64_t count, std::uint64_t zeros, std::uint64_t* words) {
  const DFloat d;
  // One comparison handles zeros too: a threshold of the smallest positive number includes zeros, a threshold of 0 does
  // not.
  alignas(64) float thresholds[64];
  for (std::size_t i = 0; i < 64; ++i) {
    thresholds[i] = (zeros >> i & 1) != 0 ? std::numeric_limits<float>::denorm_min() : 0.0f;
  }
  if constexpr (kFloatLanes >= 2) {
    // The pattern for zeros repeats every two elements, so every vector has the same thresholds.
    const auto of_all = hn::Load(d, thresholds);
    StoreSigns(
        gradient, count, [=](auto g, std::size_t) HWY_ATTR { return hn::Lt(g, of_all); }, words);
  } else {
    StoreSigns(
        gradient, count, [&](auto g, std::size_t i) HWY_ATTR { return hn::Lt(g, hn::Load(d, thresholds + i)); }, words);
  }
}

void SignBitWords(const float* gradient, std::int64_t count, std::uint64_t* words) {
  const hn::RebindToSigned<DFloat> d_int;
  const auto is_negative = [=](auto g, std::size_t) HWY_ATTR {
    return hn::RebindMask(DFloat(), hn::Lt(hn::BitCast(d_int, g), hn::Zero(d_int)));
  };
  StoreSigns(gradient, count, is_negative, words);
}

void ScaleSigns(const std::uint8_t* HWY_RESTRICT bits, std::int64_t num_bytes, std::int64_t first, std::int64_t count,
                float positive, float negative, float* HWY_RESTRICT out) {
  const DFloat d;
  const auto v_positive = hn::Set(d, positive);
  const auto v_negative = hn::Set(d, Negated(negative));
  for (std::int64_t i = 0; i < count; i += 64) {
    const std::uint64_t word = BitsFrom(bits, num_bytes, first + i);
    const auto left = static_cast<std::size_t>(std::min<std::int64_t>(64, count - i));
    StoreOfBits(left, out + i, [&](std::size_t at) HWY_ATTR {
      return hn::IfThenElse(MaskOfBits(word >> at), v_negative, v_positive);
    });
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(SignWords);
HWY_EXPORT(SignBitWords);
HWY_EXPORT(ScaleSigns);
void sign_words(const float* gradient, std::int64_t count, std::uint64_t zeros, std::uint64_t* words) {
  HWY_DYNAMIC_DISPATCH(SignWords)(gradient, count, zeros, words);
}
void sign_bit_words(const float* gradient, std::int64_t count, std::uint64_t* words) {
  HWY_DYNAMIC_DISPATCH(SignBitWords)(gradient, count, words);
}
void scale_signs(const std::uint8_t* bits, std::int64_t num_bytes, std::int64_t first, std::int64_t count,
                 float positive, float negative, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleSigns)(bits, num_bytes, first, count, positive, negative, out);
}
}  // namespace terngrad::cpu
#endif
