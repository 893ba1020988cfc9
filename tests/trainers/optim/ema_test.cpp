#include "trainers/optim/ema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"

namespace terngrad::ema_test {
namespace {

using testing::bits_of;

TEST(Ema, DecayRampsUpToItsLimit) {
  EXPECT_DOUBLE_EQ(Ema::decay_at(0.9999, 0), 1.0 / 10);
  EXPECT_DOUBLE_EQ(Ema::decay_at(0.9999, 1), 2.0 / 11);
  EXPECT_DOUBLE_EQ(Ema::decay_at(0.9999, 90), 91.0 / 100);
  // (1 + t) / (10 + t) reaches 0.9999 at t = 89990.
  EXPECT_LT(Ema::decay_at(0.9999, 89'989), 0.9999);
  EXPECT_DOUBLE_EQ(Ema::decay_at(0.9999, 89'990), 0.9999);
  EXPECT_EQ(Ema::decay_at(0.9999, 10'000'000), 0.9999);
  EXPECT_EQ(Ema::decay_at(0.05, 0), 0.05);
}

TEST(Ema, BeginsAsTheInitialParameters) {
  const std::vector<float> initial = {1.0f, -2.0f, 3.5f};
  const Ema ema(0.9999, initial);
  EXPECT_EQ(bits_of(ema.shadow()), bits_of(initial));
}

TEST(Ema, FollowsAConstantByTheProductOfDecays) {
  // With constant w, shadow - w shrinks by d_t in each step: the product of (1 + t) / (10 + t) is (T! 9!) / (T + 9)!.
  constexpr std::size_t kCount = 100;
  Stream stream(Device::cpu(), 2);
  Ema ema(0.9999, std::vector<float>(kCount, 3.0f));
  const std::vector<float> parameters(kCount, 1.0f);
  double product = 1;
  for (std::uint64_t step = 0; step < 12; ++step) {
    ema.update(parameters, step, stream);
    product *= static_cast<double>(1 + step) / static_cast<double>(10 + step);
    // One rounding of a value near 1 per step.
    for (const float value : ema.shadow()) ASSERT_NEAR(value, 1 + 2 * product, 13 * 6e-8) << step;
  }
}

TEST(Ema, RoundsLikeThePlainLoop) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> shadow = {0.1f, -7.3f, 1e-20f, 4.0f};
  Ema ema(0.9, shadow);
  for (std::uint64_t step = 0; step < 120; ++step) {
    std::vector<float> parameters = {0.3f, std::sin(static_cast<float>(step)), 1e-3f, 4.0f};
    ema.update(parameters, step, stream);
    const float kept =
        static_cast<float>(std::min(0.9, (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step))));
    for (std::size_t i = 0; i < shadow.size(); ++i) {
      const volatile float difference = shadow[i] - parameters[i];
      const volatile float share = 1.0f - kept;
      const volatile float change = share * difference;
      shadow[i] -= change;
    }
    ASSERT_EQ(bits_of(ema.shadow()), bits_of(shadow)) << step;
  }
}

TEST(Ema, DecayOfZeroCopies) {
  Stream stream(Device::cpu(), 1);
  Ema ema(0, std::vector<float>{1.0f, 2.0f});
  ema.update(std::vector<float>{5.0f, -0.25f}, 0, stream);
  EXPECT_THAT(ema.shadow(), ::testing::ElementsAre(5.0f, -0.25f));
}

TEST(Ema, DecayOutsideItsRangeIsRefused) {
  const std::vector<float> initial(3);
  for (const double decay : {1.0, -0.1, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(Ema(decay, initial), InvalidArgument) << decay;
  }
}

}  // namespace
}  // namespace terngrad::ema_test
