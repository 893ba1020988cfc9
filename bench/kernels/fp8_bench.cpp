// Quantizing to FP8, to nearest and drawn.
#include "kernels/codes/fp8.h"

#include <algorithm>
#include <cmath>

#include "bench/quantize_bench.h"

namespace terngrad::bench {
namespace {

constexpr float kScaler = 0.0001f;

/// True if a code stands for a number next to the element, or for the nearest if elements are rounded to it.
bool is_right(std::uint8_t code, float g, Rounding rounding) {
  if (code != 0 && (code >= 0x80) != std::signbit(g)) return false;
  const float x = std::min(std::fabs(g) * (1.0f / kScaler), kMaxE4M3);
  const auto magnitude = static_cast<std::uint8_t>(code & 0x7f);
  const float value = e4m3_value(magnitude);
  // The distance to the neighbour on x's side of the value.
  const auto neighbour = static_cast<std::uint8_t>(x < value ? magnitude - 1 : std::min(magnitude + 1, 0x7e));
  const float step = std::fabs(e4m3_value(neighbour) - value);
  const float error = std::fabs(x - value);
  return rounding == Rounding::kNearest ? 2 * error <= step : error == 0 || error < step;
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](const char* name, Rounding rounding, ElementType type) {
    const auto check = [=](const PackedCodes& codes, std::int64_t i, float g) {
      return is_right(codes.payload[static_cast<std::size_t>(i)], g, rounding);
    };
    add_quantizer<Fp8Quantizer, Fp8Options>(rows, {.name = name,
                                                   .options = {.rounding = rounding},
                                                   .format = CodeFormat::kE4M3,
                                                   .type = type,
                                                   .scaler = kScaler,
                                                   .is_right = check});
  };
  add("quantize_e4m3", Rounding::kNearest, ElementType::kFloat32);
  add("quantize_e4m3_drawn", Rounding::kStochastic, ElementType::kFloat32);
  add("quantize_e4m3", Rounding::kNearest, ElementType::kBfloat16);
});

}  // namespace
}  // namespace terngrad::bench
