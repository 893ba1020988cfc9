// Test slices for quantization to uniform levels, and a scalar reference of the codes.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/codes/levels.h"
#include "kernels/codes/ternary_pack.h"
#include "support/codes/quantize_cases.h"

namespace terngrad::testing {

/// Draws of a LevelCase with the default key and worker.
inline const reference::Stream kLevelStream{0x0123456789abcdef, 42, 8, 10};

/// All bit widths, roundings and output formats.
inline const LevelOptions kLevelForms[] = {
    {.bits = 4},
    {.bits = 8},
    {.bits = 4, .rounding = Rounding::kNearest},
    {.bits = 8, .rounding = Rounding::kNearest},
    {.bits = 2, .rounding = Rounding::kNearest},
    {.bits = 2},
    {.bits = 4, .lanes = true, .num_workers = 3},
    {.bits = 8, .lanes = true, .num_workers = 1000},
    {.bits = 2, .lanes = true, .num_workers = 1, .rounding = Rounding::kNearest},
    {.bits = 4, .num_workers = 1000, .rounding = Rounding::kStratified},
    {.bits = 8, .num_workers = 999, .rounding = Rounding::kStratified},
    {.bits = 2, .num_workers = 512, .rounding = Rounding::kStratified},
    {.bits = 4, .lanes = true, .num_workers = 1000, .rounding = Rounding::kStratified},
    {.bits = 4, .num_workers = 1, .rounding = Rounding::kStratified},
};

template <>
struct QuantizerTraits<LevelOptions> {
  using Quantizer = LevelQuantizer;
  static constexpr float kScaler = 2.5f;
  static CodeFormat format(const LevelOptions& options) {
    return options.lanes ? CodeFormat::kLanes : level_format(options.bits);
  }
  static LaneForm lanes(const LevelOptions& options) {
    return {.num_workers = options.num_workers, .levels = 2 * num_levels(options.bits)};
  }
  static std::string text(const LevelOptions& options) {
    return std::to_string(options.bits) + " bits" + (options.lanes ? " in lanes" : "") + ", " +
           to_string(options.rounding);
  }
};

using LevelCase = QuantizeCase<LevelOptions>;

/// Code of one element, by the definition.
inline int reference_level(float g, float s, int levels, bool is_nearest, std::uint32_t r16, std::uint32_t r24) {
  if (std::isnan(s) || s < 0x1p-86f) return 0;
  const auto most = static_cast<float>(levels);
  const float magnitude = std::fabs(g);
  int code = levels;
  if (magnitude < s) {
    const float inverse = most / s;
    const float scaled = magnitude * inverse;
    const float t = scaled < most ? scaled : most;
    if (is_nearest) {
      code = static_cast<int>(std::lrint(t));
    } else {
      const float l = std::floor(t);
      const float f = t - l;
      const float scaled_fraction = f * 65536.0f;
      const float h = std::floor(scaled_fraction);
      const auto r = static_cast<float>(r16);
      const bool up = r < h || (r == h && static_cast<float>(r24) < (scaled_fraction - h) * 16777216.0f);
      code = static_cast<int>(l) + (up ? 1 : 0);
    }
  }
  return std::signbit(g) ? -code : code;
}

inline std::vector<int> reference_levels(const LevelCase& c) {
  const bool is_nearest = c.options.rounding == Rounding::kNearest;
  return reference_codes(c, [&](float g, float s, std::uint32_t r16, std::uint32_t r24) {
    return reference_level(g, s, num_levels(c.options.bits), is_nearest, r16, r24);
  });
}

/// Packs codes in the format of the options.
inline reference::Bytes pack_levels(std::span<const int> codes, const LevelOptions& options) {
  const int levels = num_levels(options.bits);
  if (options.lanes) return reference::pack_lanes(codes, levels, options.num_workers, 2 * levels);
  const std::vector<std::int8_t> narrow(codes.begin(), codes.end());
  return options.bits == 2 ? reference::pack_t2(narrow) : reference::pack_levels(narrow, options.bits);
}

inline reference::Bytes reference_payload(const LevelCase& c) { return pack_levels(reference_levels(c), c.options); }

/// Unpacked codes of a payload other than lanes.
inline std::vector<std::int16_t> unpacked(const reference::Bytes& payload, const LevelCase& c) {
  const PackedCodes codes{c.format(), payload, c.count()};
  check_payload(codes);
  std::vector<std::int16_t> out(c.gradient.size());
  unpack_codes(codes, 0, out);
  return out;
}

}  // namespace terngrad::testing
