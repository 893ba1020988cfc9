// Test slices for FP8 quantization, and a scalar reference of the codes.
#pragma once

#include <string>

#include "kernels/codes/fp8.h"
#include "support/codes/quantize_cases.h"

namespace terngrad::testing {

template <>
struct QuantizerTraits<Fp8Options> {
  using Quantizer = Fp8Quantizer;
  static constexpr float kScaler = 0.01f;
  static CodeFormat format(const Fp8Options&) { return CodeFormat::kE4M3; }
  static LaneForm lanes(const Fp8Options&) { return {}; }
  static std::string text(const Fp8Options& options) {
    return options.rounding == Rounding::kNearest ? "nearest" : "drawn";
  }
};

using Fp8Case = QuantizeCase<Fp8Options>;

inline reference::Bytes reference_payload(const Fp8Case& c) {
  const bool is_nearest = c.options.rounding == Rounding::kNearest;
  reference::Bytes bytes = reference_codes(c, [&](float g, float s, std::uint32_t r16, std::uint32_t r24) {
    return reference::e4m3_code(g, s, is_nearest, r16, r24);
  });
  bytes.resize(static_cast<std::size_t>(c.bytes()), 0);
  return bytes;
}

}  // namespace terngrad::testing
