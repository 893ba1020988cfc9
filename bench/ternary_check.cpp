#include "bench/ternary_check.h"

#include <algorithm>
#include <cmath>

#include "kernels/random/strata.h"

namespace terngrad::bench {

bool codes_are_right(const PackedCodes& codes, std::span<const float> gradient, float scaler, const DrawKey& own_key,
                     std::uint64_t draw_offset, Rounding rounding) {
  check_payload(codes);
  const bool is_stratified = rounding == Rounding::kStratified;
  const Stratum stratum = stratum_of(own_key.worker, static_cast<std::uint32_t>(codes.num_workers));
  DrawKey key = own_key;
  if (is_stratified) key.worker = 0;
  const std::int64_t stride = std::max<std::int64_t>(1, codes.num_codes / 65536);
  DrawKey refine = key;
  refine.purpose = DrawPurpose::kTernarizeRefine;
  for (std::int64_t i = 0; i < codes.num_codes; i += stride) {
    const float g = gradient[static_cast<std::size_t>(i)];
    const float magnitude = std::fabs(g);
    int expected = 1;
    if (rounding == Rounding::kNearest) {
      expected = 2 * magnitude >= scaler ? 1 : 0;
    } else if (magnitude < scaler) {
      const float t = magnitude * (1.0f / scaler) * 65536.0f;
      const float floor = std::floor(t);
      std::uint32_t first_bits = draw16(key, draw_offset + static_cast<std::uint64_t>(i));
      std::uint32_t last_bits = draw32(refine, draw_offset + static_cast<std::uint64_t>(i)) >> 8;
      if (is_stratified) {
        first_bits = stratum.draw16(first_bits, g < 0 ? 1 : 0);
        last_bits = stratum.refinement(last_bits, g < 0 ? 1 : 0);
      }
      const auto r16 = static_cast<float>(first_bits);
      const auto r24 = static_cast<float>(last_bits);
      expected = r16 < floor || (r16 == floor && r24 < (t - floor) * 0x1p24f) ? 1 : 0;
    }
    if (g < 0) expected = -expected;
    if (codes.format == TernaryFormat::kLanes) expected += 1 - codes.num_workers;  // a lane holds code + 1
    std::int16_t code = 0;
    unpack_codes(codes, i, {&code, 1});
    if (code != expected) return false;
  }
  return true;
}

}  // namespace terngrad::bench
