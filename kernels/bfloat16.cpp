#include "kernels/bfloat16.h"

#include "kernels/errors.h"
#include "kernels/parallel.h"

namespace terngrad {
namespace {

constexpr std::int64_t kGrain = 16384;

}  // namespace

void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[bfloat16] lengths differ: ", values.size(), " and ", out.size());
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   out[i] = to_bfloat16(values[i]);
                 }
               });
}

void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream) {
  TERNGRAD_REQUIRE(values.size() == out.size(), "[bfloat16] lengths differ: ", values.size(), " and ", out.size());
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   out[i] = from_bfloat16(values[i]);
                 }
               });
}

void round_to_bfloat16(std::span<float> values, Stream& stream) {
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                   values[i] = from_bfloat16(to_bfloat16(values[i]));
                 }
               });
}

}  // namespace terngrad
