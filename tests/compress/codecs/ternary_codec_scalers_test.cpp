#include "compress/codecs/ternary_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/ternary_messages.h"

namespace terngrad::ternary_codec_scalers_test {
namespace {

using testing::bits_of;
using ::testing::Each;
using testing::gaussian_tensors;
using testing::measured;
using testing::reference_scaler;
using testing::small_layout;
using testing::Tensors;

TEST(TernaryCodecScalers, OfThePaperNeverExceedTheMaxMagnitude) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 1);
  for (const double c : {0.0, 2.5, 100.0}) {
    const std::vector<float> scalers = measured(TernaryCodec({.clip_factor = c}), layout, tensors);
    ASSERT_EQ(scalers.size(), 2u);
    EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], c))) << c;
    EXPECT_EQ(bits_of(scalers[1]), bits_of(reference_scaler(tensors.values[2], c))) << c;
  }
  const std::vector<float> unclipped = measured(TernaryCodec({.clip_factor = 0}), layout, tensors);
  EXPECT_LT(measured(TernaryCodec({.clip_factor = 2.5}), layout, tensors)[0], unclipped[0]);
  EXPECT_EQ(measured(TernaryCodec({.clip_factor = 100}), layout, tensors), unclipped);
}

TEST(TernaryCodecScalers, OfTheOriginalAreClippedAtSigmaEvenAboveTheMaxMagnitude) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 1);
  const TernaryCodec codec({.clip_factor = 100, .rule = ScalerRule::kOriginal});
  const std::vector<float> scalers = measured(codec, layout, tensors);
  EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], 100, true)));
  EXPECT_EQ(bits_of(scalers[1]), bits_of(reference_scaler(tensors.values[2], 100, true)));
  EXPECT_GT(scalers[0], 10 * measured(TernaryCodec({.clip_factor = 0}), layout, tensors)[0]);
}

TEST(TernaryCodecScalers, OfBlocksAreThoseOfEachRun) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 2);
  const TernaryCodec codec({.clip_factor = 2.5, .scope = ScalerScope::kBlock, .block_elements = 1984});
  const std::vector<float> scalers = measured(codec, layout, tensors);
  ASSERT_EQ(scalers.size(), 6u);  // five of the 9000 elements, one of the 7
  const std::span<const float> big = tensors.values[0];
  for (std::size_t b = 0; b < 5; ++b) {
    const auto run = big.subspan(b * 1984, std::min<std::size_t>(1984, 9000 - b * 1984));
    EXPECT_EQ(bits_of(scalers[b]), bits_of(reference_scaler(run, 2.5))) << b;
  }
  EXPECT_EQ(bits_of(scalers[5]), bits_of(reference_scaler(tensors.values[2], 2.5)));
}

TEST(TernaryCodecScalers, OfTheModelComeFromTheStatisticsOfAllTensorsTogether) {
  const Layout layout = small_layout();
  Tensors tensors = gaussian_tensors(layout, 3);
  tensors.values[2][4] = 50;  // the largest element is in the small tensor
  const reference::Statistics big = reference::statistics(tensors.values[0]);
  const reference::Statistics few = reference::statistics(tensors.values[2]);
  const reference::Statistics all{big.sum + few.sum, big.sum_squares + few.sum_squares,
                                  std::max(big.max_bits, few.max_bits)};
  for (const double c : {0.0, 2.5}) {
    const TernaryCodec codec({.clip_factor = c, .scope = ScalerScope::kModel});
    EXPECT_THAT(bits_of(measured(codec, layout, tensors)), Each(bits_of(reference::scaler(all, 9007, c, false)))) << c;
  }
}

TEST(TernaryCodecScalers, OfTheModelLeaveOutATensorThatIsNotFinite) {
  const Layout layout = small_layout();
  const TernaryCodec codec({.clip_factor = 2.5, .scope = ScalerScope::kModel});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Tensors tensors = gaussian_tensors(layout, 3);
    tensors.values[2][4] = bad;
    const std::vector<float> scalers = measured(codec, layout, tensors);
    EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], 2.5)));
    EXPECT_EQ(bits_of(scalers[1]), bits_of(canonical_nan()));
  }
}

TEST(TernaryCodecScalers, OfAsymmetricLevelsAreThoseOfTheTwoSides) {
  const Layout layout = small_layout();
  Tensors tensors = gaussian_tensors(layout, 2);
  for (float& value : tensors.values[0]) value = value < 0 ? value / 2 : value;
  for (const double c : {0.0, 1.5}) {
    const TernaryCodec codec(
        {.clip_factor = c, .scope = ScalerScope::kBlock, .block_elements = 1984, .levels = TernaryLevels::kAsymmetric});
    const std::vector<float> scalers = measured(codec, layout, tensors);
    ASSERT_EQ(scalers.size(), 12u);  // five blocks of the 9000 elements, one of the 7
    const std::span<const float> big = tensors.values[0];
    for (std::size_t b = 0; b < 5; ++b) {
      const auto run = big.subspan(b * 1984, std::min<std::size_t>(1984, 9000 - b * 1984));
      reference::Statistics side = reference::statistics(run);
      for (const std::size_t sign : {0u, 1u}) {
        const float most = sign == 0 ? std::ranges::max(run) : -std::ranges::min(run);
        side.max_bits = bits_of(most);
        EXPECT_EQ(bits_of(scalers[2 * b + sign]),
                  bits_of(reference::scaler(side, static_cast<std::int64_t>(run.size()), c, false)))
            << b;
      }
      if (c == 0) {
        EXPECT_GT(scalers[2 * b], 1.5f * scalers[2 * b + 1]);
      }
    }
  }
}

TEST(TernaryCodecScalers, OneSideThatIsNotFiniteFlagsItsWholeTensor) {
  const Layout layout = small_layout();
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {
    for (const float sign : {1.0f, -1.0f}) {
      const TernaryCodec codec({.scope = scope, .block_elements = 1984, .levels = TernaryLevels::kAsymmetric});
      Tensors tensors = gaussian_tensors(layout, 3);
      std::vector<float> expected = measured(codec, layout, tensors);
      tensors.values[0][2000] = sign * std::numeric_limits<float>::infinity();
      std::fill_n(expected.begin(), codec.num_scalers(layout.segment(0).num_elements), canonical_nan());
      EXPECT_EQ(bits_of(measured(codec, layout, tensors)), bits_of(expected));
    }
  }
}

TEST(TernaryCodecScalers, OneBlockThatIsNotFiniteFlagsItsWholeTensor) {
  const Layout layout = small_layout();
  for (const std::int64_t block : {1984, 4096}) {  // in two passes, and drawn while measuring
    const TernaryCodec codec({.scope = ScalerScope::kBlock, .block_elements = block});
    Tensors tensors = gaussian_tensors(layout, 3);
    const std::vector<float> finite = measured(codec, layout, tensors);
    tensors.values[0][static_cast<std::size_t>(block)] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> expected = finite;
    std::fill_n(expected.begin(), codec.num_scalers(layout.segment(0).num_elements), canonical_nan());
    EXPECT_EQ(bits_of(measured(codec, layout, tensors)), bits_of(expected)) << block;
  }
}

}  // namespace
}  // namespace terngrad::ternary_codec_scalers_test
