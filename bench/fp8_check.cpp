#include "bench/fp8_check.h"

#include <algorithm>
#include <cmath>

#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

std::string fp8_bench_name(const Fp8Options& options) {
  return options.rounding == Rounding::kNearest ? "quantize_e4m3" : "quantize_e4m3_drawn";
}

bool fp8_is_right(std::span<const std::uint8_t> payload, std::int64_t n, const Fp8Options& options,
                  const float* gradient, float scaler) {
  check_payload({CodeFormat::kE4M3, payload, n});
  const std::int64_t stride = std::max<std::int64_t>(1, n / 65536);
  for (std::int64_t i = 0; i < n; i += stride) {
    const std::uint8_t code = payload[static_cast<std::size_t>(i)];
    if (code != 0 && (code >= 0x80) != std::signbit(gradient[i])) return false;
    const float x = std::min(std::fabs(gradient[i]) * (1.0f / scaler), kMaxE4M3);
    const auto magnitude = static_cast<std::uint8_t>(code & 0x7f);
    const float value = e4m3_value(magnitude);
    // The distance to the neighbour on x's side of the value.
    const auto neighbour = static_cast<std::uint8_t>(x < value ? magnitude - 1 : std::min(magnitude + 1, 0x7e));
    const float step = std::fabs(e4m3_value(neighbour) - value);
    const float error = std::fabs(x - value);
    if (options.rounding == Rounding::kNearest ? 2 * error > step : error > 0 && error >= step) return false;
  }
  return true;
}

QuantizeBench<Fp8Options> fp8_bench(const Fp8Options& options, ElementType type) {
  constexpr float kScaler = 0.0001f;
  return {.name = fp8_bench_name(options),
          .options = options,
          .type = type,
          .scaler = kScaler,
          .payload_bytes = [](std::int64_t n) { return payload_bytes(CodeFormat::kE4M3, n, 1); },
          .is_right = [=](std::span<const std::uint8_t> payload, std::int64_t n,
                          const float* gradient) { return fp8_is_right(payload, n, options, gradient, kScaler); }};
}

}  // namespace

std::vector<QuantizeBench<Fp8Options>> fp8_benches() {
  return {fp8_bench({}, ElementType::kFloat32), fp8_bench({.rounding = Rounding::kStochastic}, ElementType::kFloat32),
          fp8_bench({}, ElementType::kBfloat16)};
}

}  // namespace terngrad::bench
