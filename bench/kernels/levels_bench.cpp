// Quantizing to uniform levels, drawn and to nearest.
#include "kernels/codes/levels.h"

#include <algorithm>
#include <cmath>

#include "bench/quantize_bench.h"
#include "kernels/codes/lanes.h"

namespace terngrad::bench {
namespace {

constexpr float kScaler = 0.025f;

/// The code of element `draw`.
int expected_code(float g, const LevelOptions& options, std::uint64_t draw) {
  const auto most = static_cast<float>(num_levels(options.bits));
  float level = most;
  if (std::fabs(g) < kScaler) {
    const float t = std::min(std::fabs(g) * (most / kScaler), most);
    if (options.rounding == Rounding::kNearest) {
      level = std::nearbyint(t);
    } else {
      DrawKey refine = kQuantizeKey;
      refine.purpose = options.refine_purpose;
      level = std::floor(t);
      const float fraction = (t - level) * 65536.0f;
      const float h = std::floor(fraction);
      const auto r16 = static_cast<float>(draw16(kQuantizeKey, draw));
      const auto r24 = static_cast<float>(draw32(refine, draw) >> 8);
      if (r16 < h || (r16 == h && r24 < (fraction - h) * 0x1p24f)) level += 1;
    }
  }
  return static_cast<int>(g < 0 ? -level : level);
}

void add(Rows& rows, const LevelOptions& options, ElementType type = ElementType::kFloat32) {
  const CodeFormat format = options.lanes ? CodeFormat::kLanes : level_format(options.bits);
  const int m = 2 * num_levels(options.bits);
  const auto is_right = [=](const PackedCodes& codes, std::int64_t i, float g) {
    std::int16_t code = 0;
    unpack_codes(codes, i, {&code, 1});
    // A lane of one worker lacks the bias of the others.
    const int missing = options.lanes ? lane_bias(options.num_workers - 1, m) : 0;
    return code + missing == expected_code(g, options, static_cast<std::uint64_t>(i));
  };
  const bool is_nearest = options.rounding == Rounding::kNearest;
  add_quantizer<LevelQuantizer, LevelOptions>(rows,
                                              {.name = "quantize_" + to_string(format) + (is_nearest ? "_nearest" : ""),
                                               .options = options,
                                               .format = format,
                                               .num_workers = options.num_workers,
                                               .lane_levels = m,
                                               .type = type,
                                               .scaler = kScaler,
                                               .is_right = is_right});
}

const Registration registration(__FILE__, [](Rows& rows) {
  for (const int bits : {4, 8}) {
    add(rows, {.bits = bits});
    add(rows, {.bits = bits, .rounding = Rounding::kNearest});
  }
  add(rows, {.bits = 4, .lanes = true, .num_workers = 8});
  add(rows, {.bits = 4}, ElementType::kBfloat16);
});

}  // namespace
}  // namespace terngrad::bench
