#include "kernels/tensor/bfloat16.h"

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/bfloat16.h"
#include "kernels/tensor/cuda/bfloat16.h"

namespace terngrad {
namespace {

/// out[i] = function(values[i]) on the CPU, in a loop that the compiler vectorizes.
template <class From, class To, class Function>
void convert(std::span<const From> values, std::span<To> out, const Stream& stream, const Function& function) {
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   out[i] = function(values[i]);
                 }
               });
}

}  // namespace

void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[bfloat16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::encode_bfloat16(values, out, stream);
  convert(values, out, stream, [](float value) { return to_bfloat16(value); });
}

void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[bfloat16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::decode_bfloat16(values, out, stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 cpu::decode_bfloat16(values.data() + begin, out.data() + begin, end - begin);
               });
}

void round_to_bfloat16(std::span<float> values, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::round_to_bfloat16(values, stream);
  convert(std::span<const float>(values), values, stream,
          [](float value) { return from_bfloat16(to_bfloat16(value)); });
}

}  // namespace terngrad
