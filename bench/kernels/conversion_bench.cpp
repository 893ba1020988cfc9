// Conversions between float32 and types of 16 bits.
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::bench {
namespace {

/// A type of 16 bits: its conversions of arrays, and those of one value.
struct HalfType {
  const char* name;
  void (*encode)(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream);
  void (*decode)(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream);
  std::uint16_t (*from_float)(float value);
  float (*to_float)(std::uint16_t value);
};

constexpr HalfType kHalfTypes[] = {
    {"bfloat16", encode_bfloat16, decode_bfloat16, to_bfloat16, from_bfloat16},
    {"float16", encode_float16, decode_float16, to_float16, from_float16},
};

Subject conversion(const HalfType& type, std::int64_t n, bool decode) {
  auto half = std::make_shared<Buffer<std::uint16_t>>(n);
  auto out = std::make_shared<Buffer<float>>(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 6.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    type.encode({gradient(n), static_cast<std::size_t>(n)}, half->span(), stream);
    if (decode) return [=, &stream] { type.decode(half->span(), out->span(), stream); };
    return [=, &stream] { type.encode({gradient(n), static_cast<std::size_t>(n)}, half->span(), stream); };
  };
  subject.check = [=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint16_t expected = type.from_float(gradient(n)[i]);
      if (half->data()[i] != expected || (decode && out->data()[i] != type.to_float(expected))) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_conversion() {
  for (const HalfType& type : kHalfTypes) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(std::string("encode_") + type.name, "f32", n, threads), n, threads,
                         [=] { return conversion(type, n, false); });
        register_subject(bench_name(std::string("decode_") + type.name, "f32", n, threads), n, threads,
                         [=] { return conversion(type, n, true); });
      }
    }
  }
}

}  // namespace terngrad::bench
