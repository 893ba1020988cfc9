#include "datasets/transforms/cpu/hue_saturation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "datasets/transforms/cpu/hue_saturation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Colours {
  hn::VFromD<D> red, green, blue;
};

template <class D, class V>
HWY_INLINE V ClampToUnit(D d, V x) {
  return hn::Min(hn::Max(x, hn::Zero(d)), hn::Set(d, 1.0f));
}

/// x - 1 for x >= 1, x + 1 for x < 0.
template <class D, class V>
HWY_INLINE V WrapOnce(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V up = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Add(x, one), x);
  return hn::IfThenElse(hn::Ge(up, one), hn::Sub(up, one), up);
}

template <class D>
HWY_INLINE Colours<D> AdjustPixels(D d, const Colours<D>& in, float saturation, float hue) {
  using V = hn::VFromD<D>;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const V value = hn::Max(in.red, hn::Max(in.green, in.blue));
  const V chroma = hn::Sub(value, hn::Min(in.red, hn::Min(in.green, in.blue)));
  // Replace divisors of 0 or less by 1; the quotients are then not used.
  const auto has_value = hn::Gt(value, zero), has_chroma = hn::Gt(chroma, zero);
  const V s = hn::IfThenElseZero(has_value, hn::Div(chroma, hn::IfThenElse(has_value, value, one)));
  const V unit = hn::Div(one, hn::IfThenElse(has_chroma, hn::Mul(chroma, hn::Set(d, 6.0f)), one));
  const auto is_red = hn::Eq(value, in.red), is_green = hn::Eq(value, in.green);
  const V difference = hn::IfThenElse(is_red, hn::Sub(in.green, in.blue),
                                      hn::IfThenElse(is_green, hn::Sub(in.blue, in.red), hn::Sub(in.red, in.green)));
  const V sector = hn::IfThenElse(is_red, zero, hn::IfThenElse(is_green, hn::Set(d, 1.0f / 3), hn::Set(d, 2.0f / 3)));
  const V h = WrapOnce(d, hn::IfThenElseZero(has_chroma, hn::Add(hn::Mul(difference, unit), sector)));
  const V new_s = ClampToUnit(d, hn::Mul(s, hn::Set(d, saturation)));
  const V six_h = hn::Mul(WrapOnce(d, hn::Add(h, hn::Set(d, hue))), hn::Set(d, 6.0f));
  const V two = hn::Set(d, 2.0f);
  const V red = ClampToUnit(d, hn::Sub(hn::Abs(hn::Sub(six_h, hn::Set(d, 3.0f))), one));
  const V green = ClampToUnit(d, hn::Sub(two, hn::Abs(hn::Sub(six_h, two))));
  const V blue = ClampToUnit(d, hn::Sub(two, hn::Abs(hn::Sub(six_h, hn::Set(d, 4.0f)))));
  const V rest = hn::Sub(one, new_s);
  const auto mix = [&](V part) HWY_ATTR { return hn::Mul(hn::Add(rest, hn::Mul(new_s, part)), value); };
  return {mix(red), mix(green), mix(blue)};
}

template <class D>
HWY_INLINE void AdjustVector(D d, float* HWY_RESTRICT pixels, float saturation, float hue) {
  Colours<D> colours;
  hn::LoadInterleaved3(d, pixels, colours.red, colours.green, colours.blue);
  colours = AdjustPixels(d, colours, saturation, hue);
  hn::StoreInterleaved3(colours.red, colours.green, colours.blue, d, pixels);
}

void AdjustHueSaturation(float* HWY_RESTRICT pixels, std::size_t num_pixels, float saturation, float hue) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= num_pixels; i += lanes) AdjustVector(d, pixels + 3 * i, saturation, hue);
  if (i == num_pixels) return;
  HWY_ALIGN float rest[3 * hn::MaxLanes(d)] = {};
  std::copy_n(pixels + 3 * i, 3 * (num_pixels - i), rest);
  AdjustVector(d, rest, saturation, hue);
  std::copy_n(rest, 3 * (num_pixels - i), pixels + 3 * i);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {

HWY_EXPORT(AdjustHueSaturation);

void adjust_hue_saturation(std::span<float> pixels, float saturation, float hue) {
  HWY_DYNAMIC_DISPATCH(AdjustHueSaturation)(pixels.data(), pixels.size() / 3, saturation, hue);
}

}  // namespace terngrad::cpu
#endif
