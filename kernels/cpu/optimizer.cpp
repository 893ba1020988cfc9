#include "kernels/cpu/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DFloat = hn::CappedTag<float, 16>;

/// Calls step(tag, i) for whole vectors, then with a tag of one lane for the rest: the same arithmetic in both,
/// separate multiplications and additions.
template <class Step>
HWY_INLINE void ForEach(std::int64_t count, const Step& step) {
  const DFloat d;
  const hn::CappedTag<float, 1> one;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) step(d, i);
  for (; i < n; ++i) step(one, i);
}

void UpdateGd(float* HWY_RESTRICT w, const float* HWY_RESTRICT g, std::int64_t count, float lr) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), hn::Mul(hn::Set(d, lr), hn::LoadU(d, g + i))), d, w + i);
  });
}

void UpdateMomentum(float* HWY_RESTRICT w, float* HWY_RESTRICT a, const float* HWY_RESTRICT g, std::int64_t count,
                    float lr, float m) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto accumulated = hn::Add(hn::Mul(hn::Set(d, m), hn::LoadU(d, a + i)), hn::LoadU(d, g + i));
    hn::StoreU(accumulated, d, a + i);
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), hn::Mul(hn::Set(d, lr), accumulated)), d, w + i);
  });
}

void UpdateEma(float* HWY_RESTRICT s, const float* HWY_RESTRICT w, std::int64_t count, float rate) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto shadow = hn::LoadU(d, s + i);
    hn::StoreU(hn::Sub(shadow, hn::Mul(hn::Set(d, rate), hn::Sub(shadow, hn::LoadU(d, w + i)))), d, s + i);
  });
}

void AddScaled(float* HWY_RESTRICT t, const float* HWY_RESTRICT s, std::int64_t count, float factor) {
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, t + i), hn::Mul(hn::Set(d, factor), hn::LoadU(d, s + i))), d, t + i);
  });
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(UpdateGd);
HWY_EXPORT(UpdateMomentum);
HWY_EXPORT(UpdateEma);
HWY_EXPORT(AddScaled);

void update_gd(float* weights, const float* gradient, std::int64_t count, float learning_rate) {
  HWY_DYNAMIC_DISPATCH(UpdateGd)(weights, gradient, count, learning_rate);
}
void update_momentum(float* weights, float* accumulator, const float* gradient, std::int64_t count, float learning_rate,
                     float momentum) {
  HWY_DYNAMIC_DISPATCH(UpdateMomentum)(weights, accumulator, gradient, count, learning_rate, momentum);
}
void update_ema(float* shadow, const float* weights, std::int64_t count, float rate) {
  HWY_DYNAMIC_DISPATCH(UpdateEma)(shadow, weights, count, rate);
}
void add_scaled(float* target, const float* source, std::int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(target, source, count, factor);
}
}  // namespace terngrad::cpu
#endif
