// Stochastic rounding of single numbers, for codecs without kernels.
#pragma once

#include <cstdint>

#include "kernels/random/philox.h"

namespace terngrad {

/// Returns true if draw d rounds up:
///
///   r16 < h, or r16 == h and r24 < (65536 f - h) 2^24, with h = floor(65536 f), r16 = draw16(key, d) and
///   r24 = draw32(refine key, d) >> 8
///
/// which has probability f to 40 bits. Quantizing kernels do the same for many elements at once.
/// @param key       its purpose is ignored: draws have kQuantize and kQuantizeRefine
/// @param draw      d = draw offset of the segment + position in it
/// @param fraction  f, in [0, 1)
inline bool rounds_up(DrawKey key, std::uint64_t draw, float fraction) {
  const float scaled = fraction * 65536.0f;  // exact, as is the subtraction below
  const auto whole = static_cast<std::uint32_t>(scaled);
  key.purpose = DrawPurpose::kQuantize;
  const std::uint32_t r16 = draw16(key, draw);
  if (r16 != whole) return r16 < whole;
  key.purpose = DrawPurpose::kQuantizeRefine;
  return static_cast<float>(draw32(key, draw) >> 8) < (scaled - static_cast<float>(whole)) * 0x1p24f;
}

}  // namespace terngrad
