// Conversions between float32 and types of 16 bits.
#include <algorithm>
#include <string>

#include "bench/elementwise.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::bench {
namespace {

using Arrays = ElementwiseArrays;
using Apply = void (*)(Arrays& arrays, Stream& stream);

void add_type(Rows& rows, const std::string& type, Apply encode, Apply decode, Apply round,
              std::uint16_t (*from_float)(float value), float (*to_float)(std::uint16_t value)) {
  const auto are_encoded = [=](const Arrays& arrays, std::span<const float> gradient) {
    return std::ranges::equal(arrays.halves.span(), gradient, {}, {}, from_float);
  };
  const auto are_decoded = [=](const Arrays& arrays, std::span<const float> gradient) {
    return are_encoded(arrays, gradient) &&
           std::ranges::equal(arrays.slots[0].span(), arrays.halves.span(), {}, {}, to_float);
  };
  add_elementwise(rows,
                  {.name = "encode_" + type, .bytes = 6, .has_halves = true, .apply = encode, .is_right = are_encoded});
  add_elementwise(rows, {.name = "decode_" + type,
                         .bytes = 6,
                         .num_slots = 1,
                         .has_halves = true,
                         .apply = decode,
                         .prepare = encode,
                         .is_right = are_decoded});
  add_elementwise(rows, {.name = "round_to_" + type, .bytes = 8, .num_slots = 1, .is_in_place = true, .apply = round},
                  Devices::kCuda);
}

const Registration registration(__FILE__, [](Rows& rows) {
  add_type(
      rows, "bfloat16", [](Arrays& a, Stream& stream) { encode_bfloat16(a.gradient.span(), a.halves.span(), stream); },
      [](Arrays& a, Stream& stream) { decode_bfloat16(a.halves.span(), a.slots[0].span(), stream); },
      [](Arrays& a, Stream& stream) { round_to_bfloat16(a.slots[0].span(), stream); }, to_bfloat16, from_bfloat16);
  add_type(
      rows, "float16", [](Arrays& a, Stream& stream) { encode_float16(a.gradient.span(), a.halves.span(), stream); },
      [](Arrays& a, Stream& stream) { decode_float16(a.halves.span(), a.slots[0].span(), stream); },
      [](Arrays& a, Stream& stream) { round_to_float16(a.slots[0].span(), stream); }, to_float16, from_float16);
});

}  // namespace
}  // namespace terngrad::bench
