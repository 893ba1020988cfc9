#include "kernels/tensor/cpu/memory_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tensor/cpu/memory_update.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(d, i) for whole vectors starting at element i, then for single elements at the end.
template <class Body>
HWY_INLINE void ForEachVector(std::int64_t count, const Body& body) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) body(d, i);
  for (; i < n; ++i) body(one, i);
}

void Compensate(float decay, const float* HWY_RESTRICT state, float weight, const float* HWY_RESTRICT gradient,
                float* HWY_RESTRICT out, std::int64_t count) {
  ForEachVector(count, [&](auto d, std::size_t i) HWY_ATTR {
    // Two rounded products and a rounded sum: no fused multiply-add.
    const auto kept = hn::Mul(hn::Set(d, decay), hn::LoadU(d, state + i));
    hn::StoreU(hn::Add(kept, hn::Mul(hn::Set(d, weight), hn::LoadU(d, gradient + i))), d, out + i);
  });
}

template <bool kNesterov, bool kHasResidual>
void AccumulateAs(float momentum, const float* residual, const float* HWY_RESTRICT velocity,
                  const float* HWY_RESTRICT gradient, float* HWY_RESTRICT next, float* HWY_RESTRICT out,
                  std::int64_t count) {
  ForEachVector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto m = hn::Set(d, momentum);
    const auto g = hn::LoadU(d, gradient + i);
    const auto u = hn::Add(hn::Mul(m, hn::LoadU(d, velocity + i)), g);
    hn::StoreU(u, d, next + i);
    auto added = u;
    if constexpr (kNesterov) added = hn::Add(hn::Mul(m, u), g);
    if constexpr (kHasResidual) added = hn::Add(hn::LoadU(d, residual + i), added);
    hn::StoreU(added, d, out + i);
  });
}

void Accumulate(float momentum, bool nesterov, const float* residual, const float* velocity, const float* gradient,
                float* next, float* out, std::int64_t count) {
  const bool has_residual = residual != nullptr;
  auto* const run = nesterov ? (has_residual ? &AccumulateAs<true, true> : &AccumulateAs<true, false>)
                             : (has_residual ? &AccumulateAs<false, true> : &AccumulateAs<false, false>);
  run(momentum, residual, velocity, gradient, next, out, count);
}

void Mask(const float* a, const float* b, float* out, std::int64_t count) {
  ForEachVector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto is_unsent = hn::Eq(hn::LoadU(d, b + i), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(is_unsent, hn::LoadU(d, a + i)), d, out + i);
  });
}

void Add(const float* a, const float* b, float* out, std::int64_t count) {
  ForEachVector(count, [&](auto d, std::size_t i)
                           HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i); });
}

void Subtract(const float* a, const float* b, float* out, std::int64_t count) {
  ForEachVector(count, [&](auto d, std::size_t i)
                           HWY_ATTR { hn::StoreU(hn::Sub(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i); });
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(Compensate);
HWY_EXPORT(Accumulate);
HWY_EXPORT(Mask);
HWY_EXPORT(Add);
HWY_EXPORT(Subtract);

void compensate(float decay, const float* state, float weight, const float* gradient, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Compensate)(decay, state, weight, gradient, out, count);
}
void accumulate(float momentum, bool nesterov, const float* residual, const float* velocity, const float* gradient,
                float* next, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(momentum, nesterov, residual, velocity, gradient, next, out, count);
}
void mask(const float* a, const float* b, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Mask)(a, b, out, count);
}
void add(const float* a, const float* b, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Add)(a, b, out, count);
}
void subtract(const float* a, const float* b, float* out, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Subtract)(a, b, out, count);
}
}  // namespace terngrad::cpu
#endif
