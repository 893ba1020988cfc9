// Rounding to powers of two.
#include "kernels/codes/exponents.h"

#include <algorithm>
#include <cmath>

#include "bench/quantize_bench.h"

namespace terngrad::bench {
namespace {

/// True if a code stands for a power next to the element.
bool is_right(const PackedCodes& codes, std::int64_t i, float g, int bits, float scaler) {
  const int sign = 1 << (bits - 1);
  const int code = codes.payload[static_cast<std::size_t>(i * bits / 8)] >> (i * bits % 8) & (2 * sign - 1);
  if (code != 0 && (code >= sign) != std::signbit(g)) return false;
  const float y = std::min(std::fabs(g) * (1.0f / scaler), 1.0f);
  const int magnitude = code % sign;
  const auto power = [&](int of) { return exponent_value(static_cast<std::uint8_t>(of), bits); };
  // The power below and the one above are not as near as the code's, unless y is the code's.
  if (magnitude < sign - 1 && y >= power(magnitude + 1)) return false;
  return magnitude == 0 || y > power(magnitude - 1) || y >= power(magnitude);
}

const Registration registration(__FILE__, [](Rows& rows) {
  constexpr float kScaler = 0.0625f;
  for (const int bits : {8, 4}) {
    const CodeFormat format = exponent_format(bits);
    const auto check = [=](const PackedCodes& codes, std::int64_t i, float g) {
      return is_right(codes, i, g, bits, kScaler);
    };
    add_quantizer<ExponentQuantizer, ExponentOptions>(rows, {.name = "quantize_" + to_string(format),
                                                             .options = {.bits = bits},
                                                             .format = format,
                                                             .scaler = kScaler,
                                                             .is_right = check});
  }
});

}  // namespace
}  // namespace terngrad::bench
