#include "kernels/codes/rounds_up.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace terngrad::rounds_up_test {
namespace {

constexpr DrawKey kKey{.seed = 5, .step = 6, .worker = 7};

/// r16 and r24 as one 40-bit number; 2^40 f of these are below f.
double draw40(std::uint64_t draw) {
  DrawKey key = kKey;
  key.purpose = DrawPurpose::kQuantize;
  const auto coarse = static_cast<double>(draw16(key, draw));
  key.purpose = DrawPurpose::kQuantizeRefine;
  return coarse * 0x1p24 + static_cast<double>(draw32(key, draw) >> 8);
}

TEST(RoundsUp, WhereTheDrawIsBelowTheFraction) {
  int num_up = 0;
  for (std::uint64_t d = 0; d < 20000; ++d) {
    const float f = draw_uniform({.seed = 1, .purpose = DrawPurpose::kSyntheticData}, d);
    const bool up = rounds_up(kKey, d, f);
    ASSERT_EQ(up, draw40(d) < static_cast<double>(f) * 0x1p40) << d << " " << f;
    num_up += up ? 1 : 0;
  }
  EXPECT_NEAR(num_up, 10000, 5 * std::sqrt(5000));
}

// Fractions with the same 16 upper bits as the draw: just above, at and just below the 40-bit draw.
TEST(RoundsUp, TiesGoByTheRefinement) {
  for (std::uint64_t d = 0; d < 200; ++d) {
    const double r = draw40(d) * 0x1p-40;
    const auto near = static_cast<float>(r);
    for (const float f : {std::nextafter(near, 0.0f), near, std::nextafter(near, 1.0f)}) {
      if (f == 1) continue;
      EXPECT_EQ(rounds_up(kKey, d, f), r < static_cast<double>(f)) << d;
    }
  }
}

TEST(RoundsUp, NeverMovesWhatIsALevel) {
  for (std::uint64_t d = 0; d < 70000; ++d) EXPECT_FALSE(rounds_up(kKey, d, 0.0f));
}

}  // namespace
}  // namespace terngrad::rounds_up_test
