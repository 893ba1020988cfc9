#include "bench/exponent_check.h"

#include <algorithm>
#include <cmath>

#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

bool exponents_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const ExponentOptions& options,
                         const float* gradient, float scaler) {
  check_payload({exponent_format(options.bits), payload, n});
  const std::int64_t bits = options.bits;
  const int sign = 1 << (bits - 1);
  const std::int64_t stride = std::max<std::int64_t>(1, n / 65536);
  for (std::int64_t i = 0; i < n; i += stride) {
    const int code = payload[static_cast<std::size_t>(i * bits / 8)] >> (i * bits % 8) & (2 * sign - 1);
    if (code != 0 && (code >= sign) != std::signbit(gradient[i])) return false;
    const float y = std::min(std::fabs(gradient[i]) * (1.0f / scaler), 1.0f);
    const int magnitude = code % sign;
    const auto power = [&](int of) { return exponent_value(static_cast<std::uint8_t>(of), options.bits); };
    // The power below and the one above are not as near as the code's, unless y is the code's.
    if (magnitude < sign - 1 && y >= power(magnitude + 1)) return false;
    if (magnitude > 0 && y <= power(magnitude - 1) && y < power(magnitude)) return false;
  }
  return true;
}

}  // namespace

std::vector<QuantizeBench<ExponentOptions>> exponent_benches() {
  constexpr float kScaler = 0.0625f;
  std::vector<QuantizeBench<ExponentOptions>> benches;
  for (const int bits : {8, 4}) {
    const ExponentOptions options{.bits = bits};
    const CodeFormat format = exponent_format(bits);
    benches.push_back({.name = "quantize_" + to_string(format),
                       .options = options,
                       .scaler = kScaler,
                       .payload_bytes = [=](std::int64_t n) { return payload_bytes(format, n, 1); },
                       .is_right =
                           [=](std::span<const std::uint8_t> payload, std::int64_t n, const float* gradient) {
                             return exponents_are_right(payload, n, options, gradient, kScaler);
                           }});
  }
  return benches;
}

}  // namespace terngrad::bench
