// Checks and changes of a gradient, in place.
#include "kernels/tensor/transform.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "bench/elementwise.h"

namespace terngrad::bench {
namespace {

using Arrays = ElementwiseArrays;

/// One infinity to find, the last element.
void plant_infinity(Arrays& arrays, Stream& stream) {
  const float infinity = std::numeric_limits<float>::infinity();
  copy<float>({&infinity, 1}, arrays.slots[0].span().last(1), stream);
}

const Registration registration(__FILE__, [](Rows& rows) {
  add_elementwise(
      rows,
      {.name = "all_finite",
       .bytes = 4,
       .num_slots = 1,
       .is_in_place = true,
       .apply = [](Arrays& a, Stream& stream) { a.flag.data()[0] = all_finite(a.slots[0].span(), stream) ? 1 : 0; },
       .is_right = [](const Arrays& a, std::span<const float>) { return a.flag.data()[0] == 1; }},
      Devices::kCpu);
  add_elementwise(rows,
                  {.name = "find_nonfinite",
                   .bytes = 4,
                   .num_slots = 1,
                   .is_in_place = true,
                   .apply = [](Arrays& a, Stream& stream) { find_nonfinite(a.slots[0].span(), a.flag.data(), stream); },
                   .prepare = plant_infinity,
                   .is_right = [](const Arrays& a, std::span<const float>) { return a.flag.data()[0] == 1; }},
                  Devices::kCuda);
  // Reads only, once the infinity is gone.
  add_elementwise(
      rows, {.name = "zero_nonfinite",
             .bytes = 4,
             .num_slots = 1,
             .is_in_place = true,
             .apply = [](Arrays& a, Stream& stream) { zero_nonfinite(a.slots[0].span(), a.counter.data(), stream); },
             .prepare = plant_infinity,
             .is_right =
                 [](const Arrays& a, std::span<const float> gradient) {
                   const std::size_t last = gradient.size() - 1;
                   return a.counter.span()[0] == 1 && a.slots[0].span()[last] == 0 &&
                          std::ranges::equal(a.slots[0].span().first(last), gradient.first(last));
                 }});
  // By -1, so that values stay in range however often it runs.
  add_elementwise(rows, {.name = "scale",
                         .bytes = 8,
                         .num_slots = 1,
                         .is_in_place = true,
                         .apply = [](Arrays& a, Stream& stream) { scale(a.slots[0].span(), -1.0f, stream); },
                         .is_right =
                             [](const Arrays& a, std::span<const float> gradient) {
                               return std::ranges::equal(a.slots[0].span(), gradient, {}, {}, std::negate<>());
                             }});
});

}  // namespace
}  // namespace terngrad::bench
