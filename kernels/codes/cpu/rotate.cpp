// Butterflies of the Hadamard transform, and random signs before or after them.
#include "kernels/codes/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/rotate.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/codes/cpu/bit_vectors-inl.h"
#include "kernels/codes/cpu/draws-inl.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using VFloat = hn::Vec<DFloat>;

/// Random signs of a chunk's elements, 64 per word.
struct Signs {
  alignas(64) std::uint16_t draws[(kBlocksPerChunk / 16 + 1 + kSpareBlocks) * 8];
  std::size_t skipped;  // words before that of the first element

  std::uint64_t word(std::size_t element) const {
    std::uint64_t bits;
    std::memcpy(&bits, draws + (element / 64 + skipped) * 4, sizeof(bits));
    return bits;
  }
  bool is_minus(std::size_t element) const { return (word(element) >> (element % 64) & 1) != 0; }
};

/// A draw block holds the signs of 128 elements, in the bits of its consecutive 16-bit draws.
HWY_INLINE void FillSigns(const DrawKey& key, std::uint64_t draw, std::size_t count, Signs& signs) {
  signs.skipped = draw % 128 / 64;
  FillDraws<DrawOrder::kNatural>(key, draw / 128, (count + signs.skipped * 64 + 127) / 128, {}, signs.draws);
}

HWY_INLINE VFloat WithSigns(VFloat values, const Signs& signs, std::size_t element) {
  return hn::IfThenElse(MaskOfBits(signs.word(element) >> (element % 64)), hn::Neg(values), values);
}

#if HWY_TARGET != HWY_SCALAR
/// Butterflies of one stride between the lanes of a vector: x + partner; in the upper lane of a pair partner - x,
/// computed as partner + (-x).
template <std::size_t kStride, class V>
HWY_INLINE V WithinVector(V x) {
  constexpr std::uint64_t kUpper = kStride == 1 ? 0xaaaa : kStride == 2 ? 0xcccc : kStride == 4 ? 0xf0f0 : 0xff00;
  const V signed_x = hn::IfThenElse(MaskOfBits(kUpper), hn::Neg(x), x);
  V partner;
  if constexpr (kStride == 1) {
    partner = hn::Shuffle2301(x);
  } else if constexpr (kStride == 2) {
    partner = hn::Shuffle1032(x);
  } else if constexpr (kStride * 2 == kFloatLanes) {
    partner = hn::ConcatLowerUpper(DFloat(), x, x);
  } else {
    partner = hn::SwapAdjacentBlocks(x);
  }
  return hn::Add(partner, signed_x);
}
#endif

template <class V>
HWY_INLINE V AllWithinVector(V x) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kFloatLanes >= 2) x = WithinVector<1>(x);
  if constexpr (kFloatLanes >= 4) x = WithinVector<2>(x);
  if constexpr (kFloatLanes >= 8) x = WithinVector<4>(x);
  if constexpr (kFloatLanes >= 16) x = WithinVector<8>(x);
#endif
  return x;
}

/// Butterflies with strides stride, 2 stride, ..., kVectors / 2 stride over a run, in place.
/// @param last  function applied to the results
template <std::size_t kVectors, class Last>
HWY_INLINE void Pass(float* HWY_RESTRICT run, std::size_t run_elements, std::size_t stride, const Last& last) {
  const DFloat d;
  for (std::size_t block = 0; block < run_elements; block += kVectors * stride) {
    for (std::size_t at = block; at < block + stride; at += kFloatLanes) {
      VFloat x[kVectors];
      HWY_UNROLL(8)
      for (std::size_t i = 0; i < kVectors; ++i) x[i] = hn::LoadU(d, run + at + i * stride);
      HWY_UNROLL(3)
      for (std::size_t half = 1; half < kVectors; half *= 2) {
        HWY_UNROLL(8)
        for (std::size_t i = 0; i < kVectors; ++i) {
          if ((i & half) != 0) continue;
          const VFloat a = x[i];
          const VFloat b = x[i + half];
          x[i] = hn::Add(a, b);
          x[i + half] = hn::Sub(a, b);
        }
      }
      HWY_UNROLL(8)
      for (std::size_t i = 0; i < kVectors; ++i) {
        hn::StoreU(last(x[i], at + i * stride), d, run + at + i * stride);
      }
    }
  }
}

/// Butterflies with all strides from `stride` on, three at a time; `last` is applied to the final results.
template <class Last>
HWY_INLINE void Passes(float* HWY_RESTRICT run, std::size_t run_elements, std::size_t stride, const Last& last) {
  const auto as_is = [](VFloat x, std::size_t) HWY_ATTR { return x; };
  for (; 8 * stride < run_elements; stride *= 8) Pass<8>(run, run_elements, stride, as_is);
  switch (run_elements / stride) {
    case 8:
      return Pass<8>(run, run_elements, stride, last);
    case 4:
      return Pass<4>(run, run_elements, stride, last);
    case 2:
      return Pass<2>(run, run_elements, stride, last);
    default:
      return Pass<1>(run, run_elements, stride, last);
  }
}

/// Rotates a run of at least 64 elements. @param element  offset of the run in the chunk: a multiple of 64
HWY_INLINE void RotateRun(const float* values, std::size_t element, std::size_t run_elements, bool forward,
                          const Signs& signs, float* out) {
  const DFloat d;
  const auto scale = hn::Set(d, rotation_scale(static_cast<std::int64_t>(run_elements)));
  float* const run = out + element;
  if (forward) {
    for (std::size_t i = 0; i < run_elements; i += kFloatLanes) {
      const VFloat x = WithSigns(hn::LoadU(d, values + element + i), signs, element + i);
      hn::StoreU(AllWithinVector(x), d, run + i);
    }
    Passes(run, run_elements, kFloatLanes, [=](VFloat x, std::size_t) HWY_ATTR { return hn::Mul(x, scale); });
    return;
  }
  for (std::size_t i = 0; i < run_elements; i += kFloatLanes) {
    hn::StoreU(AllWithinVector(hn::LoadU(d, values + element + i)), d, run + i);
  }
  Passes(run, run_elements, kFloatLanes,
         [&, scale](VFloat x, std::size_t i) HWY_ATTR { return WithSigns(hn::Mul(x, scale), signs, element + i); });
}

/// Rotates a run of a tail, of less than 64 elements.
HWY_INLINE void RotateShortRun(const float* values, std::size_t element, std::size_t run_elements, bool forward,
                               const Signs& signs, float* out) {
  float run[64];
  for (std::size_t i = 0; i < run_elements; ++i) {
    const float value = values[element + i];
    run[i] = forward && signs.is_minus(element + i) ? -value : value;
  }
  for (std::size_t stride = 1; stride < run_elements; stride *= 2) {
    for (std::size_t i = 0; i < run_elements; ++i) {
      if ((i & stride) != 0) continue;
      const float a = run[i];
      const float b = run[i + stride];
      run[i] = a + b;
      run[i + stride] = a - b;
    }
  }
  const float scale = rotation_scale(static_cast<std::int64_t>(run_elements));
  for (std::size_t i = 0; i < run_elements; ++i) {
    const float value = run[i] * scale;
    out[element + i] = !forward && signs.is_minus(element + i) ? -value : value;
  }
}

void RotateChunk(const float* values, std::int64_t num_elements, std::int64_t run_elements, bool forward,
                 const DrawKey& key, std::uint64_t draw, float* out) {
  const auto count = static_cast<std::size_t>(num_elements);
  Signs signs;
  FillSigns(key, draw, count, signs);
  auto run = static_cast<std::size_t>(run_elements);
  for (std::size_t element = 0; element < count; element += run) {
    while (run > count - element) run /= 2;
    if (run >= 64) {
      RotateRun(values, element, run, forward, signs, out);
    } else {
      RotateShortRun(values, element, run, forward, signs, out);
    }
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(RotateChunk);
void rotate_chunk(const float* values, std::int64_t count, std::int64_t run_elements, bool forward, const DrawKey& key,
                  std::uint64_t draw, float* out) {
  HWY_DYNAMIC_DISPATCH(RotateChunk)(values, count, run_elements, forward, key, draw, out);
}
}  // namespace terngrad::cpu
#endif
