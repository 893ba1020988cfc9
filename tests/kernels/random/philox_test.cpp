#include "kernels/random/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "support/reference.h"

namespace terngrad::philox_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers from Random123.
TEST(Philox, GivesTheKnownAnswerForZeros) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, GivesTheKnownAnswerForOnes) {
  constexpr std::uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, GivesTheKnownAnswerForDigitsOfPi) {
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AgreesWithTheReference) {
  std::mt19937 engine(1);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int i = 0; i < 1000; ++i) {
    const Words counter = {random(), random(), random(), random()};
    const std::array<std::uint32_t, 2> key = {random(), random()};
    ASSERT_EQ(philox4x32_10(counter, key), reference::philox(counter, key));
  }
}

TEST(DrawCounter, PutsEveryFieldWhereTheFormatSays) {
  const DrawKey key{0, 0xab01234567, 0xfedcba98, DrawPurpose::kDropout};
  EXPECT_EQ(draw_counter(key, 0x765489abcdef), (Words{0x89abcdef, 0xfedcba98, 0x01234567, 0x05ab7654}));
}

TEST(DrawPurpose, HasTheNumbersOfTheFormat) {
  EXPECT_EQ(static_cast<int>(DrawPurpose::kTernarize), 1);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kTernarizeRefine), 2);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kDownlink), 3);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kDownlinkRefine), 4);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kDropout), 5);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kAugmentation), 6);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kShuffle), 7);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kInitializer), 8);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kSyntheticData), 9);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kQuantize), 10);
  EXPECT_EQ(static_cast<int>(DrawPurpose::kQuantizeRefine), 11);
}

TEST(Draw16, TakesEightFromABlockLowHalvesFirst) {
  const DrawKey key{0x1234567890abcdef, 77, 3, DrawPurpose::kTernarize};
  const auto expected = reference::draws16({0x1234567890abcdef, 77, 3, 1}, 1000, 100);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(draw16(key, 1000 + i), expected[i]) << i;
}

TEST(Draw32, TakesFourFromABlock) {
  const DrawKey key{5, 6, 7, DrawPurpose::kShuffle};
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(draw32(key, i), reference::block({5, 6, 7, 7}, i / 4)[i % 4]);
}

TEST(DrawUniform, IsTheUpper24BitsBelowOne) {
  const DrawKey key{9, 8, 7, DrawPurpose::kInitializer};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const float value = draw_uniform(key, i);
    ASSERT_EQ(std::ldexp(value, 24), static_cast<float>(draw32(key, i) >> 8));
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
  }
}

TEST(DrawBlock, DiffersInEveryFieldOfTheKey) {
  const DrawKey base{1, 1, 1, DrawPurpose::kTernarize};
  std::set<Words> seen;
  DrawKey key = base;
  seen.insert(draw_block(key, 1));
  for (int bit = 0; bit < 64; ++bit) {
    key = base;
    key.seed ^= std::uint64_t{1} << bit;
    seen.insert(draw_block(key, 1));
  }
  for (int bit = 0; bit < 40; ++bit) {
    key = base;
    key.step ^= std::uint64_t{1} << bit;
    seen.insert(draw_block(key, 1));
  }
  for (int bit = 0; bit < 32; ++bit) {
    key = base;
    key.worker ^= std::uint32_t{1} << bit;
    seen.insert(draw_block(key, 1));
  }
  for (int bit = 0; bit < 48; ++bit) seen.insert(draw_block(base, 1 ^ std::uint64_t{1} << bit));
  key = base;
  key.purpose = DrawPurpose::kTernarizeRefine;
  seen.insert(draw_block(key, 1));
  EXPECT_EQ(seen.size(), 1u + 64 + 40 + 32 + 48 + 1);
}

}  // namespace
}  // namespace terngrad::philox_test
