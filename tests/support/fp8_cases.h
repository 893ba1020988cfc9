// Slices to quantize to FP8, and a plain reference of the codes.
#pragma once

#include <string>

#include "kernels/codes/fp8.h"
#include "support/quantize_cases.h"

namespace terngrad::testing {

template <>
struct QuantizerTraits<Fp8Options> {
  using Quantizer = Fp8Quantizer;
  static constexpr float kScaler = 0.01f;
  static std::size_t bits(const Fp8Options&) { return 8; }
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
  bytes.resize(4 * c.words(), 0);
  return bytes;
}

}  // namespace terngrad::testing
