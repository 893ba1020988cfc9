#include "trainers/optim/adam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"
#include "tests/support/reference.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::adam_test {
namespace {

using testing::bits_of;
using ::testing::HasSubstr;
using testing::message_of;

/// Gradient of update t, different for each element and update.
std::vector<float> gradient_of(std::size_t count, int t) {
  std::vector<float> g(count);
  for (std::size_t i = 0; i < count; ++i) {
    g[i] = 0.01f * static_cast<float>(static_cast<int>(i) * 29 % 17 - 8) * static_cast<float>(t % 3 + 1);
  }
  return g;
}

TEST(Adam, StepSizeIsTheRateWithTheBiasCorrection) {
  for (const int t : {1, 2, 3, 10, 100, 1000, 20000}) {
    const double b1 = double{0.9f};
    const double b2 = double{0.999f};
    const double expected = 0.25 * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
    EXPECT_NEAR(adam_step_size(0.25f, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(t)), expected,
                1e-7 * expected)
        << t;
  }
  // The correction vanishes after many updates, also for the largest number of updates.
  EXPECT_EQ(adam_step_size(0.25f, 1000000, 1000000), 0.25f);
  EXPECT_EQ(adam_step_size(0.25f, UINT64_MAX, UINT64_MAX), 0.25f);
  EXPECT_THROW(adam_step_size(0.25f, 0, 0), InvalidArgument);
}

TEST(Adam, CountsItsUpdates) {
  constexpr std::size_t kCount = 1003;
  for (const int threads : {1, 3}) {
    Stream stream(Device::cpu(), threads);
    const auto optimizer = make_adam(kCount);
    std::vector<float> weights(kCount, 0.5f);
    std::vector<reference::AdamElement> expected(kCount, {0.5f, 0, 0});
    for (int t = 1; t <= 5; ++t) {
      const float rate = 0.1f / static_cast<float>(t);
      const std::vector<float> g = gradient_of(kCount, t);
      optimizer->apply(weights, g, rate, stream);
      const float step_size = adam_step_size(rate, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(t));
      for (std::size_t i = 0; i < kCount; ++i) {
        expected[i] = reference::adam(expected[i], g[i], step_size, 0.9f, 0.999f, 1e-8f);
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(bits_of(weights[i]), bits_of(expected[i].weight)) << i;
      ASSERT_EQ(bits_of(optimizer->slots()[0].values[i]), bits_of(expected[i].first_moment)) << i;
      ASSERT_EQ(bits_of(optimizer->slots()[1].values[i]), bits_of(expected[i].second_moment)) << i;
    }
    EXPECT_EQ(optimizer->state(), (std::map<std::string, std::string>{{"adam_updates", "5"}}));
  }
}

TEST(Adam, FirstUpdatesMoveByTheRate) {
  // With bias correction, a constant gradient moves each weight by lr in each update, against its sign.
  Stream stream(Device::cpu(), 1);
  const auto optimizer = make_adam(3);
  std::vector<float> weights = {0, 0, 0};
  for (int t = 1; t <= 4; ++t) {
    optimizer->apply(weights, std::vector<float>{0.5f, -2, 100}, 0.125f, stream);
    EXPECT_NEAR(weights[0], -0.125f * static_cast<float>(t), 1e-5f);
    EXPECT_NEAR(weights[1], 0.125f * static_cast<float>(t), 1e-5f);
    EXPECT_NEAR(weights[2], -0.125f * static_cast<float>(t), 1e-5f);
  }
}

TEST(Adam, ContinuesFromSlotsAndState) {
  Stream stream(Device::cpu(), 1);
  const auto whole = make_adam(9);
  std::vector<float> weights(9, 1.0f);
  for (int t = 0; t < 3; ++t) whole->apply(weights, gradient_of(9, t), 0.1f, stream);
  const auto resumed = make_adam(9);
  EXPECT_EQ(resumed->slots()[0].name, "m");
  EXPECT_EQ(resumed->slots()[1].name, "v");
  for (const std::size_t slot : {0u, 1u})
    std::ranges::copy(whole->slots()[slot].values, resumed->slots()[slot].values.begin());
  std::map<std::string, std::string> saved = whole->state();
  saved["codec"] = "ternary";  // entries of others
  resumed->restore_state(saved);
  std::vector<float> weights_resumed = weights;
  for (int t = 3; t < 6; ++t) {
    whole->apply(weights, gradient_of(9, t), 0.1f, stream);
    resumed->apply(weights_resumed, gradient_of(9, t), 0.1f, stream);
  }
  EXPECT_EQ(bits_of(weights_resumed), bits_of(weights));
  EXPECT_EQ(resumed->state(), whole->state());
}

TEST(Adam, RefusesStateThatIsNone) {
  const auto optimizer = make_adam(1);
  EXPECT_THAT(message_of<DataError>([&] { optimizer->restore_state({{"updates", "3"}}); }), HasSubstr("adam_updates"));
  for (const char* text : {"", "x", "3x", "-1", " 3", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(message_of<DataError>([&] {
                  optimizer->restore_state({{"adam_updates", text}});
                }),
                HasSubstr("adam_updates '" + std::string(text) + "'"));
  }
  EXPECT_EQ(optimizer->state().at("adam_updates"), "0");
}

}  // namespace
}  // namespace terngrad::adam_test
