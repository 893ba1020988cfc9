#include "kernels/optimizer/optimizer.h"

#include <cmath>

#include "bench/elementwise.h"

namespace terngrad::bench {
namespace {

using Arrays = ElementwiseArrays;

/// Weights and the other arrays of an update are slots. @param expected  what an update makes of a zero weight
void add(Rows& rows, const char* name, double floats_moved, int num_slots, float (*expected)(float g),
         void (*apply)(Arrays& arrays, Stream& stream)) {
  const auto is_right = [=](const Arrays& arrays, std::span<const float> gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (arrays.slots[0].span()[i] != expected(gradient[i])) return false;
    }
    return true;
  };
  add_elementwise(
      rows, {.name = name, .bytes = 4 * floats_moved, .num_slots = num_slots, .apply = apply, .is_right = is_right});
}

const Registration registration(__FILE__, [](Rows& rows) {
  add(
      rows, "update_gd", 3, 1, [](float g) { return -0.1f * g; },
      [](Arrays& a, Stream& stream) { update_gd(a.slots[0].span(), a.gradient.span(), 0.1f, stream); });
  add(
      rows, "update_momentum", 5, 2, [](float g) { return -0.1f * g; },
      [](Arrays& a, Stream& stream) {
        update_momentum(a.slots[0].span(), a.slots[1].span(), a.gradient.span(), 0.1f, 0.9f, stream);
      });
  add(
      rows, "update_adam", 7, 3,
      [](float g) { return -(0.1f * ((1.0f - 0.9f) * g)) / (std::sqrt((1.0f - 0.999f) * (g * g)) + 1e-8f); },
      [](Arrays& a, Stream& stream) {
        update_adam(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(), a.gradient.span(), 0.1f, {}, stream);
      });
  add(
      rows, "update_resting_adam", 5, 3, [](float) { return 0.0f; },  // elements whose second moment is 0 stay put
      [](Arrays& a, Stream& stream) {
        update_resting_adam(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(), a.gradient.span(), 0.1f, {},
                            stream);
      });
  add(
      rows, "to_adam_direction", 4, 2, [](float) { return 0.0f; },  // the same
      [](Arrays& a, Stream& stream) {
        to_adam_direction(a.slots[0].span(), a.gradient.span(), a.slots[1].span(), a.gradient.data(), {}, stream);
      });
  add(
      rows, "update_nadam", 7, 3,
      [](float g) { return -(0.1f * ((1.0f - 0.9f) * g) + 0.1f * g) / (std::sqrt((1.0f - 0.999f) * (g * g)) + 1e-7f); },
      [](Arrays& a, Stream& stream) {
        update_nadam(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(), a.gradient.span(), {0.1f, 0.1f, 1e-7f},
                     {}, stream);
      });
  add(
      rows, "update_rmsprop", 7, 3, [](float g) { return -(0.1f * g / std::sqrt((1.0f - 0.9f) * (g * g) + 1.0f)); },
      [](Arrays& a, Stream& stream) {
        update_rmsprop(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(), a.gradient.span(), 0.1f, {}, stream);
      });
  add(
      rows, "update_ema", 3, 1, [](float g) { return (1.0f - 0.9f) * g; },
      [](Arrays& a, Stream& stream) { update_ema(a.slots[0].span(), a.gradient.span(), 0.9f, stream); });
  add(
      rows, "add_weight_decay", 3, 1, [](float g) { return 0.1f * g; },
      [](Arrays& a, Stream& stream) { add_weight_decay(a.slots[0].span(), a.gradient.span(), 0.1f, stream); });
});

}  // namespace
}  // namespace terngrad::bench
