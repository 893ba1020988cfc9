#include "datasets/sets/glyphs.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

namespace terngrad::glyphs_test {
namespace {

TEST(Glyphs, EveryDigitHasVariantsOfStrokes) {
  for (int digit = 0; digit < kNumDigits; ++digit) {
    ASSERT_FALSE(digit_glyphs(digit).empty()) << digit;
    for (const Glyph glyph : digit_glyphs(digit)) ASSERT_FALSE(glyph.empty()) << digit;
  }
}

TEST(Glyphs, PointsStayInTheGlyphBox) {
  for (int digit = 0; digit < kNumDigits; ++digit) {
    for (const Glyph glyph : digit_glyphs(digit)) {
      for (const GlyphStroke& stroke : glyph) {
        for (const GlyphPoint& point : stroke.points) {
          EXPECT_LE(point.x * point.x, 0.5f * 0.5f) << digit;
          EXPECT_LE(point.y * point.y, 0.75f * 0.75f) << digit;
        }
      }
    }
  }
}

TEST(Glyphs, OnlyDigitsAreKnown) {
  EXPECT_THROW(digit_glyphs(-1), InvalidArgument);
  EXPECT_THROW(digit_glyphs(10), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::glyphs_test
