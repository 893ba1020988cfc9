#include "datasets/sets/glyphs.h"

#include <array>
#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using enum StrokeKind;
using P = GlyphPoint;

constexpr P kZeroLoop[] = {{0.0f, -0.7f}, {0.3f, -0.5f}, {0.4f, 0.0f},  {0.3f, 0.5f},
                           {0.0f, 0.7f},  {-0.3f, 0.5f}, {-0.4f, 0.0f}, {-0.3f, -0.5f}};
constexpr GlyphStroke kZero[] = {{kClosedCurve, kZeroLoop}};
constexpr Glyph kZeros[] = {kZero};

constexpr P kOneStem[] = {{0.0f, -0.7f}, {0.0f, 0.7f}};
constexpr P kOneFlag[] = {{-0.26f, -0.4f}, {0.03f, -0.7f}, {0.03f, 0.7f}};
constexpr P kOneBase[] = {{-0.26f, 0.7f}, {0.3f, 0.7f}};
constexpr GlyphStroke kOnePlain[] = {{kPolyline, kOneStem}};
constexpr GlyphStroke kOneFlagged[] = {{kPolyline, kOneFlag}};
constexpr GlyphStroke kOneBased[] = {{kPolyline, kOneFlag}, {kPolyline, kOneBase}};
constexpr Glyph kOnes[] = {kOnePlain, kOneFlagged, kOneBased};

constexpr P kTwoNeck[] = {{-0.38f, -0.38f}, {-0.28f, -0.6f}, {0.0f, -0.7f},   {0.3f, -0.58f},
                          {0.37f, -0.32f},  {0.2f, 0.02f},   {-0.12f, 0.36f}, {-0.4f, 0.68f}};
constexpr P kTwoBase[] = {{-0.4f, 0.68f}, {0.42f, 0.68f}};
constexpr P kTwoWave[] = {{-0.4f, 0.68f}, {-0.14f, 0.56f}, {0.14f, 0.7f}, {0.44f, 0.56f}};
constexpr GlyphStroke kTwoFlat[] = {{kCurve, kTwoNeck}, {kPolyline, kTwoBase}};
constexpr GlyphStroke kTwoWavy[] = {{kCurve, kTwoNeck}, {kCurve, kTwoWave}};
constexpr Glyph kTwos[] = {kTwoFlat, kTwoWavy};

constexpr P kThreeTop[] = {{-0.36f, -0.52f}, {-0.1f, -0.7f}, {0.22f, -0.62f},
                           {0.34f, -0.38f},  {0.2f, -0.12f}, {-0.1f, -0.03f}};
constexpr P kThreeBelly[] = {{-0.1f, -0.03f}, {0.26f, 0.06f},  {0.4f, 0.34f},
                             {0.24f, 0.62f},  {-0.08f, 0.71f}, {-0.4f, 0.54f}};
constexpr P kThreeZigzag[] = {{-0.36f, -0.68f}, {0.34f, -0.68f}, {-0.1f, -0.03f}};
constexpr GlyphStroke kThreeRound[] = {{kCurve, kThreeTop}, {kCurve, kThreeBelly}};
constexpr GlyphStroke kThreeFlat[] = {{kPolyline, kThreeZigzag}, {kCurve, kThreeBelly}};
constexpr Glyph kThrees[] = {kThreeRound, kThreeFlat};

constexpr P kFourLine[] = {{0.14f, 0.7f}, {0.14f, -0.7f}, {-0.44f, 0.26f}, {0.44f, 0.26f}};
constexpr P kFourHook[] = {{-0.3f, -0.66f}, {-0.38f, 0.08f}, {0.42f, 0.08f}};
constexpr P kFourStem[] = {{0.24f, -0.6f}, {0.2f, 0.7f}};
constexpr GlyphStroke kFourClosed[] = {{kPolyline, kFourLine}};
constexpr GlyphStroke kFourOpen[] = {{kPolyline, kFourHook}, {kPolyline, kFourStem}};
constexpr Glyph kFours[] = {kFourClosed, kFourOpen};

constexpr P kFiveNeck[] = {{0.34f, -0.68f}, {-0.26f, -0.68f}, {-0.33f, -0.08f}};
constexpr P kFiveBelly[] = {{-0.33f, -0.08f}, {0.0f, -0.2f},   {0.32f, -0.04f}, {0.4f, 0.26f},
                            {0.26f, 0.58f},   {-0.04f, 0.71f}, {-0.4f, 0.56f}};
constexpr GlyphStroke kFive[] = {{kPolyline, kFiveNeck}, {kCurve, kFiveBelly}};
constexpr Glyph kFives[] = {kFive};

constexpr P kSixCurl[] = {{0.28f, -0.68f}, {-0.06f, -0.46f}, {-0.3f, -0.08f}, {-0.38f, 0.3f},
                          {-0.22f, 0.62f}, {0.06f, 0.7f},    {0.32f, 0.54f},  {0.38f, 0.28f},
                          {0.22f, 0.04f},  {-0.04f, -0.02f}, {-0.28f, 0.14f}, {-0.37f, 0.36f}};
constexpr GlyphStroke kSix[] = {{kCurve, kSixCurl}};
constexpr Glyph kSixes[] = {kSix};

constexpr P kSevenLine[] = {{-0.4f, -0.68f}, {0.4f, -0.68f}, {-0.08f, 0.7f}};
constexpr P kSevenBar[] = {{-0.16f, 0.02f}, {0.36f, 0.02f}};
constexpr GlyphStroke kSevenPlain[] = {{kPolyline, kSevenLine}};
constexpr GlyphStroke kSevenBarred[] = {{kPolyline, kSevenLine}, {kPolyline, kSevenBar}};
constexpr Glyph kSevens[] = {kSevenPlain, kSevenBarred};

constexpr P kEightLoops[] = {{0.22f, -0.22f}, {0.3f, -0.48f}, {0.0f, -0.7f}, {-0.3f, -0.48f}, {-0.22f, -0.2f},
                             {0.24f, 0.14f},  {0.36f, 0.42f}, {0.0f, 0.71f}, {-0.36f, 0.42f}, {-0.24f, 0.14f}};
constexpr GlyphStroke kEight[] = {{kClosedCurve, kEightLoops}};
constexpr Glyph kEights[] = {kEight};

constexpr P kNineCurl[] = {{-0.28f, 0.68f},  {0.06f, 0.46f},  {0.3f, 0.08f},    {0.38f, -0.3f},
                           {0.22f, -0.62f},  {-0.06f, -0.7f}, {-0.32f, -0.54f}, {-0.38f, -0.28f},
                           {-0.22f, -0.04f}, {0.04f, 0.02f},  {0.28f, -0.14f},  {0.37f, -0.36f}};
constexpr P kNineLoop[] = {{0.3f, -0.36f},   {0.18f, -0.62f},  {-0.08f, -0.7f}, {-0.32f, -0.54f},
                           {-0.36f, -0.26f}, {-0.16f, -0.02f}, {0.14f, -0.08f}};
constexpr P kNineStem[] = {{0.34f, -0.66f}, {0.26f, 0.7f}};
constexpr GlyphStroke kNineCurled[] = {{kCurve, kNineCurl}};
constexpr GlyphStroke kNineStraight[] = {{kClosedCurve, kNineLoop}, {kPolyline, kNineStem}};
constexpr Glyph kNines[] = {kNineCurled, kNineStraight};

constexpr std::array<std::span<const Glyph>, kNumDigits> kDigits = {kZeros, kOnes,  kTwos,   kThrees, kFours,
                                                                    kFives, kSixes, kSevens, kEights, kNines};

constexpr bool all_strokes_fit() {
  for (const std::span<const Glyph> digit : kDigits) {
    for (const Glyph glyph : digit) {
      for (const GlyphStroke& stroke : glyph) {
        if (stroke.points.size() < 2 || stroke.points.size() > std::size_t{kMaxStrokePoints}) return false;
      }
    }
  }
  return true;
}
static_assert(all_strokes_fit(), "every stroke needs 2 to kMaxStrokePoints points");

}  // namespace

std::span<const Glyph> digit_glyphs(int digit) {
  TERNGRAD_REQUIRE(digit >= 0 && digit < kNumDigits, "[digit_glyphs] digit must be in [0, 9], got ", digit);
  return kDigits[static_cast<std::size_t>(digit)];
}

}  // namespace terngrad
