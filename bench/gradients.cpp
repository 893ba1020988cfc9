#include "bench/gradients.h"

#include <cmath>
#include <numbers>

#include "bench/device_memory.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::bench {
namespace {

/// A gradient of 16-bit elements, and their values.
struct Rounded {
  Buffer<std::uint16_t> elements;
  Buffer<float> values;

  void grow(ElementType type, std::int64_t count) {
    if (elements.num_elements() >= count) return;
    elements = Buffer<std::uint16_t>(count);
    values = Buffer<float>(count);
    Stream stream;
    if (type == ElementType::kBfloat16) {
      encode_bfloat16(gradient(count), elements.span(), stream);
    } else {
      encode_float16(gradient(count), elements.span(), stream);
    }
    widen(elements.data(), type, values.span(), stream);
  }
};

}  // namespace

Buffer<float> make_gradient(std::int64_t count, std::uint64_t index) {
  Buffer<float> values(count);
  const DrawKey key{index, 0, 0, DrawPurpose::kSyntheticData};
  parallel_for(num_hardware_threads(), count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += 4) {
      const auto words = draw_block(key, static_cast<std::uint64_t>(i / 4));
      for (std::size_t j = 0; j < 4 && i + static_cast<std::int64_t>(j) < end; j += 2) {
        // Box-Muller, in float: a benchmark's input need not be the same on every machine.
        const float radius = std::sqrt(-2.0f * std::log((static_cast<float>(words[j] >> 8) + 0.5f) * 0x1p-24f));
        const float angle = 2.0f * std::numbers::pi_v<float> * static_cast<float>(words[j + 1] >> 8) * 0x1p-24f;
        values.data()[i + static_cast<std::int64_t>(j)] = 0.01f * radius * std::cos(angle);
        if (i + static_cast<std::int64_t>(j) + 1 < end) {
          values.data()[i + static_cast<std::int64_t>(j) + 1] = 0.01f * radius * std::sin(angle);
        }
      }
    }
  });
  return values;
}

std::span<const float> gradient(std::int64_t count) {
  static Buffer<float> values;
  if (values.num_elements() < count) values = make_gradient(count, 1);
  return {values.data(), static_cast<std::size_t>(count)};
}

TypedGradient typed_gradient(ElementType type, std::int64_t count) {
  if (type == ElementType::kFloat32) return {bytes_of(gradient(count)), gradient(count)};
  static Rounded bfloat16;
  static Rounded float16;
  Rounded& rounded = type == ElementType::kBfloat16 ? bfloat16 : float16;
  rounded.grow(type, count);
  const auto size = static_cast<std::size_t>(count);
  return {bytes_of(rounded.elements.span().first(size)), rounded.values.span().first(size)};
}

std::string bench_type(ElementType type) {
  return type == ElementType::kFloat32 ? "f32" : type == ElementType::kBfloat16 ? "bf16" : "f16";
}

}  // namespace terngrad::bench
