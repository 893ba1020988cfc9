#include "kernels/tensor/float16.h"

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/float16.h"
#include "kernels/tensor/cuda/float16.h"

namespace terngrad {

void encode_float16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[float16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::encode_float16(values, out, stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 cpu::encode_float16(values.data() + begin, out.data() + begin, end - begin);
               });
}

void decode_float16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[float16] lengths differ: ", values.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::decode_float16(values, out, stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 cpu::decode_float16(values.data() + begin, out.data() + begin, end - begin);
               });
}

void round_to_float16(std::span<float> values, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::round_to_float16(values, stream);
  parallel_for(
      stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
      [&](std::int64_t begin, std::int64_t end) { cpu::round_to_float16(values.data() + begin, end - begin); });
}

}  // namespace terngrad
