#include "bench/level_check.h"

#include <algorithm>
#include <cmath>

#include "kernels/codes/lanes.h"
#include "kernels/codes/ternary_pack.h"

namespace terngrad::bench {
namespace {

CodeFormat format_of(const LevelOptions& options) {
  return options.lanes ? CodeFormat::kLanes : level_format(options.bits);
}

/// The code of one element.
int expected_code(float g, float scaler, const LevelOptions& options, const DrawKey& key, std::uint64_t draw) {
  const auto most = static_cast<float>(num_levels(options.bits));
  float level = most;
  if (std::fabs(g) < scaler) {
    const float t = std::min(std::fabs(g) * (most / scaler), most);
    if (options.rounding == Rounding::kNearest) {
      level = std::nearbyint(t);
    } else {
      DrawKey refine = key;
      refine.purpose = options.refine_purpose;
      level = std::floor(t);
      const float fraction = (t - level) * 65536.0f;
      const float h = std::floor(fraction);
      const auto r16 = static_cast<float>(draw16(key, draw));
      const auto r24 = static_cast<float>(draw32(refine, draw) >> 8);
      if (r16 < h || (r16 == h && r24 < (fraction - h) * 0x1p24f)) level += 1;
    }
  }
  return static_cast<int>(g < 0 ? -level : level);
}

std::string level_bench_name(const LevelOptions& options) {
  return "quantize_" + to_string(format_of(options)) + (options.rounding == Rounding::kNearest ? "_nearest" : "");
}

std::int64_t level_bytes(std::int64_t n, const LevelOptions& options) {
  return payload_bytes(format_of(options), n, options.num_workers, 2 * num_levels(options.bits));
}

bool levels_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const LevelOptions& options,
                      const float* gradient, float scaler, const DrawKey& key) {
  const int m = 2 * num_levels(options.bits);
  const PackedCodes codes{format_of(options), payload, n, options.num_workers, m};
  check_payload(codes);
  // A lane of one worker lacks the bias of the others.
  const int missing = options.lanes ? lane_bias(options.num_workers - 1, m) : 0;
  const std::int64_t stride = std::max<std::int64_t>(1, n / 65536);
  for (std::int64_t i = 0; i < n; i += stride) {
    std::int16_t code = 0;
    unpack_codes(codes, i, {&code, 1});
    if (code + missing != expected_code(gradient[i], scaler, options, key, static_cast<std::uint64_t>(i))) return false;
  }
  return true;
}

QuantizeBench<LevelOptions> level_bench(const LevelOptions& options, ElementType type) {
  constexpr float kScaler = 0.025f;
  return {.name = level_bench_name(options),
          .options = options,
          .type = type,
          .scaler = kScaler,
          .payload_bytes = [=](std::int64_t n) { return level_bytes(n, options); },
          .is_right =
              [=](std::span<const std::uint8_t> payload, std::int64_t n, const float* gradient) {
                return levels_are_right(payload, n, options, gradient, kScaler, kQuantizeKey);
              }};
}

}  // namespace

std::vector<QuantizeBench<LevelOptions>> level_benches() {
  std::vector<QuantizeBench<LevelOptions>> benches;
  for (const int bits : {4, 8}) {
    benches.push_back(level_bench({.bits = bits}, ElementType::kFloat32));
    benches.push_back(level_bench({.bits = bits, .rounding = Rounding::kNearest}, ElementType::kFloat32));
  }
  benches.push_back(level_bench({.bits = 4, .lanes = true, .num_workers = 8}, ElementType::kFloat32));
  benches.push_back(level_bench({.bits = 4}, ElementType::kBfloat16));
  return benches;
}

}  // namespace terngrad::bench
