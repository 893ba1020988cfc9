#include "datasets/sets/pen_strokes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/random/philox.h"

namespace terngrad::pen_strokes_test {
namespace {

constexpr int kSide = 41;
constexpr DrawKey kKey{.seed = 3, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
// Origin of the glyph plane in the middle, 20 pixels per unit.
constexpr GlyphMap kPlain{.bend = {}, .xx = 20, .xy = 0, .yx = 0, .yy = 20, .shift_x = 20, .shift_y = 20};

std::vector<float> painted(const GlyphStroke& stroke, const GlyphMap& map, float jitter = 0) {
  StrokeCanvas canvas(kSide, kSide);
  ExampleDraws draws(kKey, 0);
  add_stroke(stroke, map, jitter, 1.0f, draws, canvas);
  canvas.paint(1.0f, 1.0f);
  return {canvas.values().begin(), canvas.values().end()};
}

float at(const std::vector<float>& image, int x, int y) { return image[static_cast<std::size_t>(y * kSide + x)]; }

TEST(GlyphMap, BendsThenMoves) {
  GlyphMap map = kPlain;
  EXPECT_EQ(map.apply({0.5f, -0.25f}).x, 30.0f);
  EXPECT_EQ(map.apply({0.5f, -0.25f}).y, 15.0f);
  map.bend[0] = 1;  // x + x^2
  map.bend[4] = 2;  // y + 2 x y
  EXPECT_EQ(map.apply({0.5f, -0.25f}).x, 35.0f);
  EXPECT_EQ(map.apply({0.5f, -0.25f}).y, 10.0f);
  map.xy = 4;
  EXPECT_EQ(map.apply({0.5f, -0.25f}).x, 33.0f);
}

TEST(PenStrokes, APolylineIsStraight) {
  constexpr std::array<GlyphPoint, 3> kCorner = {{{-0.5f, -0.5f}, {0.5f, -0.5f}, {0.5f, 0.5f}}};
  const std::vector<float> image = painted({.kind = StrokeKind::kPolyline, .points = kCorner}, kPlain);
  for (int i = 10; i <= 30; ++i) {
    EXPECT_GT(at(image, i, 10), 0.9f) << i;
    EXPECT_GT(at(image, 30, i), 0.9f) << i;
    EXPECT_EQ(at(image, std::min(i, 27), std::max(i, 13)), 0) << i;  // inside the corner is empty
  }
}

TEST(PenStrokes, AClosedCurveGoesAround) {
  constexpr std::array<GlyphPoint, 4> kRound = {{{0, -0.5f}, {0.5f, 0}, {0, 0.5f}, {-0.5f, 0}}};
  const std::vector<float> closed = painted({.kind = StrokeKind::kClosedCurve, .points = kRound}, kPlain);
  const std::vector<float> open = painted({.kind = StrokeKind::kCurve, .points = kRound}, kPlain);
  for (const auto& [x, y] : {std::pair(20, 10), {30, 20}, {20, 30}, {10, 20}}) EXPECT_GT(at(closed, x, y), 0.9f);
  EXPECT_EQ(at(closed, 20, 20), 0);
  // An open stroke has no ink between its last and first point.
  const auto ink = [](const std::vector<float>& image) {
    float sum = 0;
    for (int y = 8; y < 18; ++y) {
      for (int x = 8; x < 18; ++x) sum += at(image, x, y);
    }
    return sum;
  };
  EXPECT_GT(ink(closed), 10);
  EXPECT_LT(ink(open), ink(closed) / 2);
}

TEST(PenStrokes, AHandThatShakesMovesPoints) {
  constexpr std::array<GlyphPoint, 2> kLine = {{{-0.5f, 0}, {0.5f, 0}}};
  const GlyphStroke line{.kind = StrokeKind::kPolyline, .points = kLine};
  EXPECT_EQ(painted(line, kPlain, 0.1f), painted(line, kPlain, 0.1f));
  EXPECT_NE(painted(line, kPlain, 0.1f), painted(line, kPlain));
  // Ink reaches at most the jitter of 0.1 (2 pixels) plus the pen's radius.
  const std::vector<float> image = painted(line, kPlain, 0.1f);
  for (int x = 0; x < kSide; ++x) EXPECT_EQ(at(image, x, 24), 0) << x;
  EXPECT_TRUE(painted({.kind = StrokeKind::kPolyline, .points = {}}, kPlain) ==
              std::vector<float>(std::size_t{kSide} * kSide));
}

}  // namespace
}  // namespace terngrad::pen_strokes_test
