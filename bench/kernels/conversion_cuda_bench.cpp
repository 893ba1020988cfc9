// Conversions between float32 and types of 16 bits.
#include "bench/cuda_elementwise.h"
#include "bench/cuda_subjects.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::bench {
namespace {

using Arrays = ElementwiseArrays;
using Apply = void (*)(Arrays& arrays, Stream& stream);

void register_type(const std::string& type, Apply encode, Apply decode, Apply round) {
  register_cuda_elementwise({.name = "encode_" + type, .has_halves = true, .bytes = 6, .apply = encode});
  register_cuda_elementwise(
      {.name = "decode_" + type, .num_slots = 1, .has_halves = true, .bytes = 6, .apply = decode, .prepare = encode});
  register_cuda_elementwise({.name = "round_to_" + type, .bytes = 8, .apply = round});
}

}  // namespace

void register_cuda_conversion() {
  register_type(
      "bfloat16", [](Arrays& a, Stream& stream) { encode_bfloat16(a.gradient.span(), a.halves.span(), stream); },
      [](Arrays& a, Stream& stream) { decode_bfloat16(a.halves.span(), a.slots[0].span(), stream); },
      [](Arrays& a, Stream& stream) { round_to_bfloat16(a.gradient.span(), stream); });
  register_type(
      "float16", [](Arrays& a, Stream& stream) { encode_float16(a.gradient.span(), a.halves.span(), stream); },
      [](Arrays& a, Stream& stream) { decode_float16(a.halves.span(), a.slots[0].span(), stream); },
      [](Arrays& a, Stream& stream) { round_to_float16(a.gradient.span(), stream); });
}

}  // namespace terngrad::bench
