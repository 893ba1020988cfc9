#include "nets/cpu/lrn_window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nets/cpu/lrn_window.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "nets/cpu/for_each_vector-inl.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#ifndef TERNGRAD_NETS_CPU_LRN_ROWS
#define TERNGRAD_NETS_CPU_LRN_ROWS
namespace terngrad::cpu {

/// Layout of scratch memory: a few pixels' rows of channels, with `radius` zeros before each row and after the last, so
/// that windows stay inside. Enough pixels that a value has left the store buffer before it is read at another
/// alignment, few enough for the L1 cache.
struct LrnRows {
  static constexpr std::size_t kElements = 512;

  explicit LrnRows(const LrnWindow& window)
      : channels(static_cast<std::size_t>(window.channels)),
        radius(static_cast<std::size_t>(std::min(window.radius, window.channels - 1))),  // more adds only zeros
        pitch(channels + radius),
        num_pixels(std::max<std::size_t>(kElements / pitch, 1)) {}

  /// First element of a pixel's channels.
  std::size_t row(std::size_t pixel) const { return radius + pixel * pitch; }
  /// Elements of all rows with their zeros, rounded up to whole cache lines.
  std::size_t num_elements() const { return (radius + num_pixels * pitch + 31) / 32 * 32; }

  std::size_t channels;
  std::size_t radius;
  std::size_t pitch;
  std::size_t num_pixels;
};

}  // namespace terngrad::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One step towards y = s^(-1/4), of third order: with e = 1 - s y^4, s^(-1/4) = y (1 - e)^(-1/4) and
/// (1 - e)^(-1/4) = 1 + e / 4 + 5 e^2 / 32 + ...
template <class D, class V>
HWY_INLINE V RefineInverseFourthRoot(D d, V s, V y) {
  const V y2 = hn::Mul(y, y);
  const V e = hn::Sub(hn::Set(d, 1.0f), hn::Mul(hn::Mul(s, y2), y2));
  const V series = hn::Mul(e, hn::Add(hn::Set(d, 0.25f), hn::Mul(e, hn::Set(d, 0.15625f))));
  return hn::Add(y, hn::Mul(y, series));
}

/// s^(-1/4) for positive normal s, to 1e-7 relative; 0 for infinity. Avoids slow divisions and square roots: starts
/// from the bits of s taken as a logarithm (error 3 %), and refines.
template <class D, class V>
HWY_INLINE V InverseFourthRoot(D d, V s) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::Sub(hn::Set(du, 0x4f586000u), hn::ShiftRight<2>(hn::BitCast(du, s)));
  const V y = RefineInverseFourthRoot(d, s, RefineInverseFourthRoot(d, s, hn::BitCast(d, bits)));
  return hn::IfThenZeroElse(hn::Eq(s, hn::Set(d, std::numeric_limits<float>::infinity())), y);
}

/// Powers of s, for both passes.
template <class V>
struct Powers {
  V scale;       // s^-beta
  V reciprocal;  // 1 / s
};

/// beta = 0.75, the exponent of all published nets.
struct ThreeQuarters {
  explicit ThreeQuarters(float /*beta*/) {}
  template <class D, class V>
  HWY_INLINE Powers<V> operator()(D d, V s) const {
    const V root = InverseFourthRoot(d, s);
    const V root2 = hn::Mul(root, root);
    return {hn::Mul(root2, root), hn::Mul(root2, root2)};
  }
};

/// Any other exponent, one lane at a time.
struct AnyPower {
  explicit AnyPower(float b) : beta(b) {}
  template <class D, class V>
  HWY_INLINE Powers<V> operator()(D d, V s) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(s, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::pow(lanes[i], -beta);
    return {hn::Load(d, lanes), hn::Div(hn::Set(d, 1.0f), s)};
  }
  float beta;
};

/// Sum of the 2 radius + 1 values around each lane of `center`, from the first to the last.
template <class D>
HWY_INLINE hn::VFromD<D> WindowSum(D d, const float* HWY_RESTRICT center, std::size_t radius) {
  const float* HWY_RESTRICT first = center - radius;
  auto sum = hn::LoadU(d, first);
  for (std::size_t i = 1; i <= 2 * radius; ++i) sum = hn::Add(sum, hn::LoadU(d, first + i));
  return sum;
}

/// Stores the squares of `num_pixels` pixels in the layout `rows`.
HWY_INLINE void StoreSquares(const LrnRows& rows, const float* HWY_RESTRICT input, std::size_t num_pixels,
                             float* HWY_RESTRICT squares) {
  for (std::size_t p = 0; p < num_pixels; ++p) {
    ForEachVector(rows.channels, [&](auto d, std::size_t c) HWY_ATTR {
      const auto x = hn::LoadU(d, input + p * rows.channels + c);
      hn::StoreU(hn::Mul(x, x), d, squares + rows.row(p) + c);
    });
  }
}

template <class D>
HWY_INLINE hn::VFromD<D> Base(D d, const LrnWindow& w, const LrnRows& rows, const float* HWY_RESTRICT center) {
  return hn::Add(hn::Set(d, w.k), hn::Mul(hn::Set(d, w.alpha), WindowSum(d, center, rows.radius)));
}

template <class Power>
HWY_INLINE void ForwardRows(const LrnWindow& w, const LrnRows& rows, const float* HWY_RESTRICT input,
                            std::size_t num_pixels, float* HWY_RESTRICT output, float* HWY_RESTRICT squares) {
  const Power power(w.beta);
  StoreSquares(rows, input, num_pixels, squares);
  for (std::size_t p = 0; p < num_pixels; ++p) {
    ForEachVector(rows.channels, [&](auto d, std::size_t c) HWY_ATTR {
      const std::size_t at = p * rows.channels + c;
      const auto s = Base(d, w, rows, squares + rows.row(p) + c);
      hn::StoreU(hn::Mul(hn::LoadU(d, input + at), power(d, s).scale), d, output + at);
    });
  }
}

/// Computes first g s^-beta and the terms of the sum, g x s^(-beta - 1), then the sums over windows.
template <class Power>
HWY_INLINE void BackwardRows(const LrnWindow& w, const LrnRows& rows, const float* HWY_RESTRICT input,
                             const float* HWY_RESTRICT output_gradient, std::size_t num_pixels,
                             float* HWY_RESTRICT input_gradient, float* HWY_RESTRICT squares,
                             float* HWY_RESTRICT terms) {
  const Power power(w.beta);
  StoreSquares(rows, input, num_pixels, squares);
  for (std::size_t p = 0; p < num_pixels; ++p) {
    ForEachVector(rows.channels, [&](auto d, std::size_t c) HWY_ATTR {
      const std::size_t at = p * rows.channels + c;
      const auto powers = power(d, Base(d, w, rows, squares + rows.row(p) + c));
      const auto direct = hn::Mul(hn::LoadU(d, output_gradient + at), powers.scale);
      hn::StoreU(direct, d, input_gradient + at);
      hn::StoreU(hn::Mul(hn::Mul(direct, hn::LoadU(d, input + at)), powers.reciprocal), d, terms + rows.row(p) + c);
    });
  }
  const float factor = 2 * w.alpha * w.beta;
  for (std::size_t p = 0; p < num_pixels; ++p) {
    ForEachVector(rows.channels, [&](auto d, std::size_t c) HWY_ATTR {
      const std::size_t at = p * rows.channels + c;
      const auto x = hn::Mul(hn::Set(d, factor), hn::LoadU(d, input + at));
      const auto shared = hn::Mul(x, WindowSum(d, terms + rows.row(p) + c, rows.radius));
      hn::StoreU(hn::Sub(hn::LoadU(d, input_gradient + at), shared), d, input_gradient + at);
    });
  }
}

template <class Power>
HWY_INLINE void ForwardWith(const LrnWindow& w, const float* input, std::size_t num_pixels, float* output,
                            float* scratch) {
  const LrnRows rows(w);
  std::fill_n(scratch, rows.num_elements(), 0.0f);
  for (std::size_t first = 0; first < num_pixels; first += rows.num_pixels) {
    const std::size_t at = first * rows.channels;
    ForwardRows<Power>(w, rows, input + at, std::min(rows.num_pixels, num_pixels - first), output + at, scratch);
  }
}

template <class Power>
HWY_INLINE void BackwardWith(const LrnWindow& w, const float* input, const float* output_gradient,
                             std::size_t num_pixels, float* input_gradient, float* scratch) {
  const LrnRows rows(w);
  std::fill_n(scratch, 2 * rows.num_elements(), 0.0f);
  for (std::size_t first = 0; first < num_pixels; first += rows.num_pixels) {
    const std::size_t at = first * rows.channels;
    BackwardRows<Power>(w, rows, input + at, output_gradient + at, std::min(rows.num_pixels, num_pixels - first),
                        input_gradient + at, scratch, scratch + rows.num_elements());
  }
}

void LrnForward(const LrnWindow& w, const float* input, std::size_t num_pixels, float* output, float* scratch) {
  w.beta == 0.75f ? ForwardWith<ThreeQuarters>(w, input, num_pixels, output, scratch)
                  : ForwardWith<AnyPower>(w, input, num_pixels, output, scratch);
}

void LrnBackward(const LrnWindow& w, const float* input, const float* output_gradient, std::size_t num_pixels,
                 float* input_gradient, float* scratch) {
  w.beta == 0.75f ? BackwardWith<ThreeQuarters>(w, input, output_gradient, num_pixels, input_gradient, scratch)
                  : BackwardWith<AnyPower>(w, input, output_gradient, num_pixels, input_gradient, scratch);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {

HWY_EXPORT(LrnForward);
HWY_EXPORT(LrnBackward);

std::int64_t lrn_scratch_elements(const LrnWindow& window) {
  return 2 * static_cast<std::int64_t>(LrnRows(window).num_elements());
}

void lrn_forward(const LrnWindow& window, const float* input, std::int64_t num_pixels, float* output, float* scratch) {
  HWY_DYNAMIC_DISPATCH(LrnForward)(window, input, static_cast<std::size_t>(num_pixels), output, scratch);
}

void lrn_backward(const LrnWindow& window, const float* input, const float* output_gradient, std::int64_t num_pixels,
                  float* input_gradient, float* scratch) {
  HWY_DYNAMIC_DISPATCH(LrnBackward)
  (window, input, output_gradient, static_cast<std::size_t>(num_pixels), input_gradient, scratch);
}

}  // namespace terngrad::cpu
#endif
