#include "bench/typed_gradient.h"

#include <span>

#include "bench/harness.h"
#include "kernels/runtime/copy.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::bench {
namespace {

/// A gradient of 16-bit elements, and what they stand for.
struct Rounded {
  Buffer<std::uint16_t> elements;
  Buffer<float> values;

  void grow(ElementType type, std::int64_t count) {
    if (elements.num_elements() >= count) return;
    elements = Buffer<std::uint16_t>(count);
    values = Buffer<float>(count);
    Stream stream;
    const std::span<const float> original(gradient(count), static_cast<std::size_t>(count));
    if (type == ElementType::kBfloat16) {
      encode_bfloat16(original, elements.span(), stream);
    } else {
      encode_float16(original, elements.span(), stream);
    }
    widen(elements.data(), type, values.span(), stream);
  }
};

}  // namespace

TypedGradient typed_gradient(ElementType type, std::int64_t count) {
  if (type == ElementType::kFloat32) return {type, gradient(count), gradient(count)};
  static Rounded bfloat16;
  static Rounded float16;
  Rounded& rounded = type == ElementType::kBfloat16 ? bfloat16 : float16;
  rounded.grow(type, count);
  return {type, rounded.elements.data(), rounded.values.data()};
}

std::vector<Buffer<std::uint8_t>> typed_gradients_on(Stream& stream, ElementType type, std::int64_t count,
                                                     int num_sets) {
  const std::int64_t bytes = count * static_cast<std::int64_t>(element_bytes(type));
  const auto* elements = static_cast<const std::uint8_t*>(typed_gradient(type, count).elements);
  std::vector<Buffer<std::uint8_t>> sets;
  for (int set = 0; set < num_sets; ++set) {
    sets.emplace_back(bytes, stream.device());
    copy<std::uint8_t>({elements, static_cast<std::size_t>(bytes)}, sets.back().span(), stream);
  }
  stream.synchronize();
  return sets;
}

std::string bench_type(ElementType type) {
  return type == ElementType::kFloat32 ? "f32" : type == ElementType::kBfloat16 ? "bf16" : "f16";
}

}  // namespace terngrad::bench
