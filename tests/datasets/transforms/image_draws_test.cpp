#include "datasets/transforms/image_draws.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <set>

namespace terngrad::image_draws_test {
namespace {

TEST(ImageDraws, BlocksAreThoseOfTheStream) {
  const DrawKey key{.seed = 7, .step = 3, .worker = 0, .purpose = DrawPurpose::kAugmentation};
  const ImageDraws draws({.seed = 7, .epoch = 3}, 1000);
  for (const int j : {0, 1, 101, 127}) {
    EXPECT_EQ(draws.block(j), draw_block(key, 128'000 + static_cast<std::uint64_t>(j)));
  }
}

TEST(ImageDraws, VisitsAndExamplesShareNoBlock) {
  std::set<std::array<std::uint32_t, 4>> blocks;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (const std::uint64_t epoch : {0u, 1u}) {
      for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, kMaxDrawnExamples - 1}) {
        const ImageDraws draws({.seed = seed, .epoch = epoch}, index);
        for (int j = 0; j < kImageDrawBlocks; ++j) blocks.insert(draws.block(j));
      }
    }
  }
  EXPECT_EQ(blocks.size(), std::size_t{12} * kImageDrawBlocks);
}

TEST(ImageDraws, RefusesWhatHasNoCounter) {
  EXPECT_THROW(ImageDraws({.seed = 1, .epoch = 0}, -1), InvalidArgument);
  EXPECT_THROW(ImageDraws({.seed = 1, .epoch = 0}, kMaxDrawnExamples), InvalidArgument);
  EXPECT_THROW(ImageDraws({.seed = 1, .epoch = std::uint64_t{1} << 40}, 0), InvalidArgument);
  EXPECT_NO_THROW(ImageDraws({.seed = 1, .epoch = (std::uint64_t{1} << 40) - 1}, kMaxDrawnExamples - 1));
}

TEST(ImageDraws, WordsCoverTheirRanges) {
  EXPECT_EQ(uniform_of(0), 0.0f);
  EXPECT_EQ(uniform_of(0x80000000u), 0.5f);
  EXPECT_EQ(uniform_of(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_EQ(below_of(0, 33), 0);
  EXPECT_EQ(below_of(0x80000000u, 33), 16);
  EXPECT_EQ(below_of(0xffffffffu, 33), 32);
  EXPECT_EQ(below_of(0xffffffffu, 1), 0);
  EXPECT_FALSE(coin_of(0x7fffffffu));
  EXPECT_TRUE(coin_of(0x80000000u));
}

}  // namespace
}  // namespace terngrad::image_draws_test
