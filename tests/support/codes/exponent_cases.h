// Test slices for power-of-two quantization (natural), and a scalar reference of the codes.
#pragma once

#include <string>

#include "kernels/codes/exponents.h"
#include "support/codes/quantize_cases.h"

namespace terngrad::testing {

template <>
struct QuantizerTraits<ExponentOptions> {
  using Quantizer = ExponentQuantizer;
  static constexpr float kScaler = 4.0f;
  static CodeFormat format(const ExponentOptions& options) { return exponent_format(options.bits); }
  static LaneForm lanes(const ExponentOptions&) { return {}; }
  static std::string text(const ExponentOptions& options) { return std::to_string(options.bits) + " bits"; }
};

using ExponentCase = QuantizeCase<ExponentOptions>;

inline reference::Bytes reference_payload(const ExponentCase& c) {
  const reference::Bytes codes = reference_codes(c, [&](float g, float s, std::uint32_t r16, std::uint32_t r24) {
    return reference::exponent_code(g, s, c.options.bits, r16, r24);
  });
  const auto bits = static_cast<std::size_t>(c.options.bits);
  reference::Bytes bytes(static_cast<std::size_t>(c.bytes()), 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::uint8_t& byte = bytes[i * bits / 8];
    byte = static_cast<std::uint8_t>(byte | codes[i] << (i * bits % 8));
  }
  return bytes;
}

}  // namespace terngrad::testing
