#include "trainers/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::optimizer_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<float> wave(std::size_t n, float scale, float phase) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = scale * static_cast<float>((i * 37 + 11) % 101) / 101.0f - phase;
  return values;
}

TEST(Optimizer, GdSubtractsTheRateTimesTheGradient) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
    for (const int threads : {1, 3}) {
      Stream stream(Device::cpu(), threads);
      const auto optimizer = make_optimizer("gd", {}, static_cast<std::int64_t>(n));
      std::vector<float> weights = wave(n, 2.0f, 0.7f);
      std::vector<float> expected = weights;
      for (int step = 0; step < 3; ++step) {
        const std::vector<float> gradient = wave(n, 0.3f, 0.1f * static_cast<float>(step));
        optimizer->apply(weights, gradient, 0.1f, stream);
        for (std::size_t i = 0; i < n; ++i) {
          const volatile float product = 0.1f * gradient[i];
          expected[i] -= product;
        }
      }
      EXPECT_EQ(bits_of(weights), bits_of(expected)) << n;
    }
  }
}

TEST(Optimizer, MomentumAccumulatesGradientsNotUpdates) {
  constexpr std::size_t kCount = 1003;
  Stream stream(Device::cpu(), 2);
  const auto optimizer = make_optimizer("momentum", {.momentum = 0.75}, kCount);
  std::vector<float> weights = wave(kCount, 2.0f, 0.7f);
  std::vector<float> expected = weights;
  std::vector<float> accumulator(kCount, 0.0f);
  // The rate changes between steps: accumulating updates instead of gradients would differ.
  for (const float rate : {0.1f, 0.01f, 0.5f}) {
    const std::vector<float> gradient = wave(kCount, 0.3f, rate);
    optimizer->apply(weights, gradient, rate, stream);
    for (std::size_t i = 0; i < kCount; ++i) {
      const volatile float kept = 0.75f * accumulator[i];
      accumulator[i] = kept + gradient[i];
      const volatile float update = rate * accumulator[i];
      expected[i] -= update;
    }
  }
  EXPECT_EQ(bits_of(weights), bits_of(expected));
  EXPECT_EQ(bits_of(optimizer->slots()[0].values), bits_of(accumulator));
}

TEST(Optimizer, SlotsAreTheStateThatACheckpointKeeps) {
  EXPECT_TRUE(make_optimizer("gd", {}, 4)->slots().empty());
  const auto optimizer = make_optimizer("momentum", {}, 4);
  const std::vector<Optimizer::Slot> slots = optimizer->slots();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].name, "momentum");
  EXPECT_THAT(slots[0].values, ElementsAre(0.0f, 0.0f, 0.0f, 0.0f));
  // The next update continues from values written to a slot: a = 0.9 * 10 + 1, w = 0 - 0.5 a.
  std::ranges::fill(slots[0].values, 10.0f);
  std::vector<float> weights(4, 0.0f);
  Stream stream(Device::cpu(), 1);
  optimizer->apply(weights, std::vector<float>(4, 1.0f), 0.5f, stream);
  EXPECT_THAT(weights, ::testing::Each(-5.0f));
}

TEST(Optimizer, MomentumIsThatOfRmspropToo) {
  Stream stream(Device::cpu(), 1);
  const auto optimizer = make_optimizer("rmsprop", {.momentum = 0.5}, 1);
  std::vector<float> weights = {0};
  optimizer->apply(weights, std::vector<float>{1}, 1.0f, stream);
  const float first = -weights[0];
  optimizer->apply(weights, std::vector<float>{0}, 1.0f, stream);
  EXPECT_EQ(weights[0], -first - 0.5f * first);
}

TEST(Optimizer, WithoutStateGoesOnFromAnything) {
  for (const char* name : {"gd", "momentum", "rmsprop"}) {
    const auto optimizer = make_optimizer(name, {}, 1);
    EXPECT_TRUE(optimizer->state().empty()) << name;
    EXPECT_NO_THROW(optimizer->restore_state({{"codec", "fp32"}})) << name;
  }
}

TEST(Optimizer, EveryNameIsMadeAndAnUnknownOneRefused) {
  EXPECT_THAT(optimizer_names(),
              ElementsAre("gd", "momentum", "adam", "nadam", "rmsprop", "onebit_adam", "zero_one_adam"));
  for (const std::string& name : optimizer_names()) EXPECT_EQ(make_optimizer(name, {}, 1)->name(), name);
  EXPECT_THAT(message_of<InvalidArgument>([] { make_optimizer("adamw", {}, 1); }),
              ::testing::AllOf(HasSubstr("adamw"),
                               HasSubstr("gd, momentum, adam, nadam, rmsprop, onebit_adam, zero_one_adam")));
}

TEST(Optimizer, LengthsThatDifferAreRefused) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> weights(4);
  const std::vector<float> gradient(5);
  for (const std::string& name : optimizer_names()) {
    EXPECT_THROW(make_optimizer(name, {}, 4)->apply(weights, gradient, 0.1f, stream), InvalidArgument) << name;
  }
}

}  // namespace
}  // namespace terngrad::optimizer_test
