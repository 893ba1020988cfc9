#include "trainers/optim/rmsprop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/bits.h"
#include "tests/support/reference.h"

namespace terngrad::rmsprop_test {
namespace {

using testing::bits_of;
using ::testing::Each;

TEST(Rmsprop, SlotsStartAtOneAndZero) {
  const auto optimizer = make_rmsprop(0.9, 5);
  const std::vector<Optimizer::Slot> slots = optimizer->slots();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].name, "ms");
  EXPECT_THAT(slots[0].values, Each(1.0f));
  EXPECT_EQ(slots[1].name, "mom");
  EXPECT_THAT(slots[1].values, Each(0.0f));
  EXPECT_TRUE(optimizer->state().empty());
}

TEST(Rmsprop, UsesItsMomentumAndTheOriginalsConstants) {
  constexpr std::size_t kCount = 1003;
  for (const double momentum : {0.0, 0.9, 0.5}) {
    for (const int threads : {1, 3}) {
      Stream stream(Device::cpu(), threads);
      const auto optimizer = make_rmsprop(momentum, kCount);
      std::vector<float> weights(kCount, 0.5f);
      std::vector<reference::RmspropElement> expected(kCount, {0.5f, 1, 0});
      for (const float rate : {0.1f, 0.01f, 0.5f}) {
        std::vector<float> g(kCount);
        for (std::size_t i = 0; i < kCount; ++i) g[i] = rate * static_cast<float>(static_cast<int>(i) * 29 % 17 - 8);
        optimizer->apply(weights, g, rate, stream);
        for (std::size_t i = 0; i < kCount; ++i) {
          expected[i] = reference::rmsprop(expected[i], g[i], rate, 0.9f, static_cast<float>(momentum), 1.0f);
        }
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(bits_of(weights[i]), bits_of(expected[i].weight)) << i;
        ASSERT_EQ(bits_of(optimizer->slots()[0].values[i]), bits_of(expected[i].mean_square)) << i;
        ASSERT_EQ(bits_of(optimizer->slots()[1].values[i]), bits_of(expected[i].update)) << i;
      }
    }
  }
}

TEST(Rmsprop, FirstUpdateByHand) {
  // ms = 0.9 + 0.1 * 9 = 1.8; mom = 0.5 * 3 / sqrt(2.8).
  Stream stream(Device::cpu(), 1);
  const auto optimizer = make_rmsprop(0.9, 1);
  std::vector<float> weights = {2};
  optimizer->apply(weights, std::vector<float>{3}, 0.5f, stream);
  EXPECT_NEAR(optimizer->slots()[0].values[0], 1.8, 1e-6);
  EXPECT_NEAR(weights[0], 2 - 1.5 / std::sqrt(2.8), 1e-6);
}

}  // namespace
}  // namespace terngrad::rmsprop_test
