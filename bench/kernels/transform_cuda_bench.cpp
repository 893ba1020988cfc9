#include "kernels/tensor/transform.h"

#include <limits>

#include "bench/cuda_elementwise.h"
#include "bench/cuda_subjects.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

/// Something to find: one infinity, the last element.
void plant_infinity(ElementwiseArrays& arrays, Stream& stream) {
  const float infinity = std::numeric_limits<float>::infinity();
  copy<float>({&infinity, 1}, arrays.gradient.span().last(1), stream);
}

}  // namespace

void register_cuda_transform() {
  using Arrays = ElementwiseArrays;
  register_cuda_elementwise(
      {.name = "find_nonfinite",
       .bytes = 4,
       .apply = [](Arrays& a, Stream& stream) { find_nonfinite(a.gradient.span(), a.flag.data(), stream); },
       .prepare = plant_infinity});
  // Reads only, once the infinity is gone.
  register_cuda_elementwise(
      {.name = "zero_nonfinite",
       .bytes = 4,
       .apply = [](Arrays& a, Stream& stream) { zero_nonfinite(a.gradient.span(), a.counter.data(), stream); },
       .prepare = plant_infinity});
  // By -1, so that values stay in range however often it runs.
  register_cuda_elementwise({.name = "scale", .bytes = 8, .apply = [](Arrays& a, Stream& stream) {
                               scale(a.gradient.span(), -1.0f, stream);
                             }});
}

}  // namespace terngrad::bench
