// Loop over channels for kernels compiled for each SIMD target: include it between <hwy/highway.h> and
// HWY_BEFORE_NAMESPACE in a file that <hwy/foreach_target.h> includes repeatedly.
#if defined(TERNGRAD_NETS_CPU_FOR_EACH_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERNGRAD_NETS_CPU_FOR_EACH_VECTOR_INL_H
#undef TERNGRAD_NETS_CPU_FOR_EACH_VECTOR_INL_H
#else
#define TERNGRAD_NETS_CPU_FOR_EACH_VECTOR_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {

/// Calls body(tag, first) for vectors that cover [0, count): wide ones, then narrower ones for the rest.
template <class Body>
HWY_INLINE void ForEachVector(std::size_t count, const Body& body) {
  const hwy::HWY_NAMESPACE::CappedTag<float, 16> wide;
  const hwy::HWY_NAMESPACE::CappedTag<float, 4> narrow;
  const hwy::HWY_NAMESPACE::CappedTag<float, 1> single;
  std::size_t first = 0;
  for (; first + Lanes(wide) <= count; first += Lanes(wide)) body(wide, first);
  for (; first + Lanes(narrow) <= count; first += Lanes(narrow)) body(narrow, first);
  for (; first < count; ++first) body(single, first);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
