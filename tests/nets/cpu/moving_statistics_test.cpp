#include "nets/cpu/moving_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace terngrad::cpu::moving_statistics_test {
namespace {

struct State {
  std::vector<float> mean = {0, 0};
  std::vector<float> variance = {1, 1};
  float weight = 0;

  void update(float decay, std::vector<float> batch_mean, std::vector<float> batch_variance) {
    update_moving_statistics(decay, batch_mean, batch_variance,
                             {.mean = mean, .variance = variance, .weight = &weight});
  }
};

TEST(MovingStatistics, TheFirstBatchReplacesTheInitialValuesExactly) {
  State state;
  state.update(0.9997f, {3.3f, -1e-9f}, {1e-12f, 7e8f});
  EXPECT_EQ(state.mean, (std::vector<float>{3.3f, -1e-9f}));
  EXPECT_EQ(state.variance, (std::vector<float>{1e-12f, 7e8f}));
  EXPECT_FLOAT_EQ(state.weight, 1 - 0.9997f);
}

TEST(MovingStatistics, AreAveragesWithWeightsThatFallOff) {
  constexpr float kDecay = 0.75f;
  State state;
  double sum = 0;
  double weights = 0;
  for (int k = 0; k < 10; ++k) {
    const auto value = static_cast<float>(k * k);
    state.update(kDecay, {value, 1}, {2 * value, 3});
    sum = sum * 0.75 + k * k;
    weights = weights * 0.75 + 1;
    EXPECT_NEAR(state.mean[0], sum / weights, 1e-5 * sum) << k;
    EXPECT_NEAR(state.variance[0], 2 * sum / weights, 1e-5 * sum) << k;
    EXPECT_FLOAT_EQ(state.mean[1], 1);
    EXPECT_FLOAT_EQ(state.variance[1], 3);
    EXPECT_NEAR(state.weight, 1 - std::pow(0.75, k + 1), 1e-6);
  }
}

TEST(MovingStatistics, WithoutDecayFollowEveryBatch) {
  State state;
  state.update(0, {1, 2}, {3, 4});
  state.update(0, {5, 6}, {7, 8});
  EXPECT_EQ(state.mean, (std::vector<float>{5, 6}));
  EXPECT_EQ(state.variance, (std::vector<float>{7, 8}));
  EXPECT_EQ(state.weight, 1);
}

TEST(MovingStatistics, StayAsTheyAreWhereABatchIsNotFinite) {
  State state;
  state.update(0.5f, {1, 2}, {3, 4});
  const State before = state;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    state.update(0.5f, {0, bad}, {0, 0});
    state.update(0.5f, {0, 0}, {bad, 0});
    EXPECT_EQ(state.mean, before.mean);
    EXPECT_EQ(state.variance, before.variance);
    EXPECT_EQ(state.weight, before.weight);
  }
}

}  // namespace
}  // namespace terngrad::cpu::moving_statistics_test
