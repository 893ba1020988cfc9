#include "kernels/float16.h"

#include "kernels/cpu/convert.h"
#include "kernels/cuda/float16.h"
#include "kernels/errors.h"

namespace terngrad {

void encode_float16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[float16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::encode_float16(values, out, stream);
  cpu::convert(values, out, stream, [](float value) { return to_float16(value); });
}

void decode_float16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[float16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::decode_float16(values, out, stream);
  cpu::convert(values, out, stream, [](std::uint16_t value) { return from_float16(value); });
}

void round_to_float16(std::span<float> values, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::round_to_float16(values, stream);
  cpu::convert(std::span<const float>(values), values, stream,
               [](float value) { return from_float16(to_float16(value)); });
}

}  // namespace terngrad
