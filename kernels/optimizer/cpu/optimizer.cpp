#include "kernels/optimizer/cpu/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DFloat = hn::CappedTag<float, 16>;

/// Calls step(tag, i) for whole vectors, then with a one-lane tag for the rest. Both use the same arithmetic, with
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

// Division and square root are correctly rounded on every target; approximate reciprocals would not be.

/// Updates Adam's moments m and v. @param direction  (tag, m, gradient) -> numerator of the change
template <class Direction>
HWY_INLINE void UpdateMoments(float* HWY_RESTRICT w, float* HWY_RESTRICT m, float* HWY_RESTRICT v,
                              const float* HWY_RESTRICT g, std::int64_t count, float epsilon, const AdamConstants& c,
                              const Direction& direction) {
  const float b1 = c.beta1;
  const float b2 = c.beta2;
  const float rest1 = 1.0f - b1;
  const float rest2 = 1.0f - b2;
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, g + i);
    const auto first = hn::Add(hn::Mul(hn::Set(d, b1), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, rest1), gradient));
    const auto second =
        hn::Add(hn::Mul(hn::Set(d, b2), hn::LoadU(d, v + i)), hn::Mul(hn::Set(d, rest2), hn::Mul(gradient, gradient)));
    hn::StoreU(first, d, m + i);
    hn::StoreU(second, d, v + i);
    const auto step = hn::Div(direction(d, first, gradient), hn::Add(hn::Sqrt(second), hn::Set(d, epsilon)));
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), step), d, w + i);
  });
}

void UpdateAdam(float* HWY_RESTRICT w, float* HWY_RESTRICT m, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                std::int64_t count, float step_size, const AdamConstants& c) {
  UpdateMoments(w, m, v, g, count, c.epsilon, c,
                [=](auto d, auto first, auto) HWY_ATTR { return hn::Mul(hn::Set(d, step_size), first); });
}

void ToAdamDirection(float* HWY_RESTRICT g, const float* HWY_RESTRICT m, const float* HWY_RESTRICT v,
                     std::int64_t count, float bound, const AdamConstants& c) {
  const float b1 = c.beta1;
  const float rest1 = 1.0f - b1;
  const float epsilon = c.epsilon;
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto first =
        hn::Add(hn::Mul(hn::Set(d, b1), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, rest1), hn::LoadU(d, g + i)));
    const auto second = hn::LoadU(d, v + i);
    const auto direction = hn::Div(first, hn::Add(hn::Sqrt(second), hn::Set(d, epsilon)));
    const auto limit = hn::Set(d, bound);
    const auto bounded = hn::IfThenElse(hn::Gt(hn::Abs(direction), limit), hn::CopySign(limit, direction), direction);
    const auto masked = hn::IfThenZeroElse(hn::Eq(second, hn::Zero(d)), bounded);
    hn::StoreU(hn::IfThenElse(hn::IsFinite(direction), masked, direction), d, g + i);
  });
}

void UpdateRestingAdam(float* HWY_RESTRICT w, float* HWY_RESTRICT m, const float* HWY_RESTRICT v,
                       const float* HWY_RESTRICT mean, std::int64_t count, float step_size, const AdamConstants& c) {
  const float epsilon = c.epsilon;
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto second = hn::LoadU(d, v + i);
    const auto rests = hn::Or(hn::Eq(second, hn::Zero(d)), hn::IsInf(second));
    const auto direction = hn::IfThenZeroElse(rests, hn::LoadU(d, mean + i));
    const auto moment = hn::Mul(direction, hn::Add(hn::Sqrt(second), hn::Set(d, epsilon)));
    hn::StoreU(hn::IfThenZeroElse(rests, moment), d, m + i);
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), hn::Mul(hn::Set(d, step_size), direction)), d, w + i);
  });
}

void UpdateNadam(float* HWY_RESTRICT w, float* HWY_RESTRICT m, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                 std::int64_t count, const UpdateRates& rates, const AdamConstants& c) {
  const float momentum_rate = rates[0];
  const float gradient_rate = rates[1];
  UpdateMoments(w, m, v, g, count, rates[2], c, [=](auto d, auto first, auto gradient) HWY_ATTR {
    return hn::Add(hn::Mul(hn::Set(d, momentum_rate), first), hn::Mul(hn::Set(d, gradient_rate), gradient));
  });
}

void UpdateRmsprop(float* HWY_RESTRICT w, float* HWY_RESTRICT ms, float* HWY_RESTRICT mom, const float* HWY_RESTRICT g,
                   std::int64_t count, float lr, const RmspropConstants& c) {
  const float decay = c.decay;
  const float rest = 1.0f - decay;
  const float momentum = c.momentum;
  const float epsilon = c.epsilon;
  ForEach(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, g + i);
    const auto square = hn::Add(hn::Mul(hn::Set(d, decay), hn::LoadU(d, ms + i)),
                                hn::Mul(hn::Set(d, rest), hn::Mul(gradient, gradient)));
    hn::StoreU(square, d, ms + i);
    const auto scaled = hn::Div(hn::Mul(hn::Set(d, lr), gradient), hn::Sqrt(hn::Add(square, hn::Set(d, epsilon))));
    const auto update = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, mom + i)), scaled);
    hn::StoreU(update, d, mom + i);
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), update), d, w + i);
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
HWY_EXPORT(UpdateAdam);
HWY_EXPORT(ToAdamDirection);
HWY_EXPORT(UpdateRestingAdam);
HWY_EXPORT(UpdateNadam);
HWY_EXPORT(UpdateRmsprop);
HWY_EXPORT(UpdateEma);
HWY_EXPORT(AddScaled);

void update_gd(float* weights, const float* gradient, std::int64_t count, float learning_rate) {
  HWY_DYNAMIC_DISPATCH(UpdateGd)(weights, gradient, count, learning_rate);
}
void update_momentum(float* weights, float* accumulator, const float* gradient, std::int64_t count, float learning_rate,
                     float momentum) {
  HWY_DYNAMIC_DISPATCH(UpdateMomentum)(weights, accumulator, gradient, count, learning_rate, momentum);
}
void update_adam(float* weights, float* first_moment, float* second_moment, const float* gradient, std::int64_t count,
                 float step_size, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(UpdateAdam)(weights, first_moment, second_moment, gradient, count, step_size, constants);
}
void to_adam_direction(float* gradient, const float* first_moment, const float* second_moment, std::int64_t count,
                       float bound, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(ToAdamDirection)(gradient, first_moment, second_moment, count, bound, constants);
}
void update_resting_adam(float* weights, float* first_moment, const float* second_moment, const float* mean_direction,
                         std::int64_t count, float step_size, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(UpdateRestingAdam)
  (weights, first_moment, second_moment, mean_direction, count, step_size, constants);
}
void update_nadam(float* weights, float* first_moment, float* second_moment, const float* gradient, std::int64_t count,
                  const UpdateRates& rates, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(UpdateNadam)(weights, first_moment, second_moment, gradient, count, rates, constants);
}
void update_rmsprop(float* weights, float* mean_square, float* update, const float* gradient, std::int64_t count,
                    float learning_rate, const RmspropConstants& constants) {
  HWY_DYNAMIC_DISPATCH(UpdateRmsprop)(weights, mean_square, update, gradient, count, learning_rate, constants);
}
void update_ema(float* shadow, const float* weights, std::int64_t count, float rate) {
  HWY_DYNAMIC_DISPATCH(UpdateEma)(shadow, weights, count, rate);
}
void add_scaled(float* target, const float* source, std::int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(target, source, count, factor);
}
}  // namespace terngrad::cpu
#endif
