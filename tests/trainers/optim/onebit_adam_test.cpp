#include "trainers/optim/onebit_adam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/layout.h"
#include "tests/support/bits.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/transform_counts.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::onebit_adam_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;

constexpr std::size_t kCodec = 0;  // index of the exchange that compresses
constexpr std::size_t kFloating = 1;

std::vector<float> gradient_of(int step, std::size_t n) {
  std::vector<float> g(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = std::sin(0.7f * static_cast<float>(step) + static_cast<float>(i));
  return g;
}

TEST(OnebitAdam, IsAdamToTheBitInStepsWithFp32) {
  for (const char* name : {"onebit_adam", "zero_one_adam"}) {
    const auto adam = make_optimizer("adam", {}, 100);
    const auto onebit = make_onebit_adam(name, 100);
    Stream stream(Device::cpu(), 1);
    onebit->use_exchange(kFloating, stream);
    std::vector<float> expected = gradient_of(100, 100);
    std::vector<float> found = expected;
    for (int step = 0; step < 50; ++step) {
      adam->apply(expected, gradient_of(step, 100), 0.01f, stream);
      onebit->apply(found, gradient_of(step, 100), 0.01f, stream);
    }
    EXPECT_EQ(bits_of(found), bits_of(expected));
    for (const std::size_t slot : {0u, 1u}) {
      EXPECT_EQ(onebit->slots()[slot].name, adam->slots()[slot].name);
      EXPECT_EQ(bits_of(onebit->slots()[slot].values), bits_of(adam->slots()[slot].values));
    }
    EXPECT_EQ(onebit->name(), name);
  }
}

/// Adam of one element whose variance rests in some steps, in double.
struct Model {
  double weight = 0.5, m = 0, v = 0;
  int updates = 0, variance_updates = 0;
  void apply(double mean_gradient, double rate, bool compresses) {
    m = 0.9 * m + 0.1 * mean_gradient;
    ++updates;
    if (!compresses) {
      v = 0.999 * v + 0.001 * mean_gradient * mean_gradient;
      ++variance_updates;
    }
    const double corrected = std::sqrt(v / (1 - std::pow(0.999, variance_updates)));
    weight -= rate * m / (1 - std::pow(0.9, updates)) / corrected;
  }
};

TEST(OnebitAdam, MeanOfDirectionsMovesAsAdamWithTheVarianceOfStepsWithFp32) {
  constexpr int kWorkers = 3;
  const auto optimizer = make_onebit_adam("onebit_adam", kFlatAlignment);
  const auto transform = optimizer->message_transform();
  ASSERT_NE(transform, nullptr);
  EXPECT_TRUE(transform->is_per_tensor());
  Stream stream(Device::cpu(), 1);
  std::vector<float> weights(kFlatAlignment, 0.5f);
  Model model;
  for (int step = 0; step < 40; ++step) {
    const bool compresses = step >= 10 && step != 20;
    optimizer->use_exchange(compresses ? kCodec : kFloating, stream);
    std::vector<float> gradients(kWorkers * kFlatAlignment);
    double mean_gradient = 0;
    for (int worker = 0; worker < kWorkers; ++worker) {
      const float g = 0.3f + std::sin(static_cast<float>(step * kWorkers + worker));
      mean_gradient += static_cast<double>(g) / kWorkers;
      std::fill_n(gradients.begin() + worker * kFlatAlignment, kFlatAlignment, g);
    }
    TransformCounts counts;
    transform->submit(weights.data(), {{gradients.data(), kFlatAlignment}, kWorkers, 0}, {0, kFlatAlignment}, &counts,
                      stream);
    std::vector<float> mean(kFlatAlignment, 0.0f);  // of an exchange without error
    for (std::size_t i = 0; i < gradients.size(); ++i) mean[i % mean.size()] += gradients[i] / kWorkers;
    const std::vector<std::uint32_t> variance = bits_of(optimizer->slots()[1].values);
    optimizer->apply(weights, mean, 0.01f, stream);
    model.apply(mean_gradient, 0.01, compresses);
    ASSERT_NEAR(weights[0], model.weight, 1e-5) << step;
    ASSERT_EQ(weights.back(), weights[0]);
    EXPECT_EQ(bits_of(optimizer->slots()[1].values) == variance, compresses) << step;
  }
  EXPECT_EQ(optimizer->state().at("onebit_adam_updates"), "40");
  EXPECT_EQ(optimizer->state().at("onebit_adam_variance_updates"), "11");
}

TEST(OnebitAdam, TransformsTheRangeThatItGets) {
  const auto optimizer = make_onebit_adam("onebit_adam", 3 * kFlatAlignment);
  const std::span<float> m = optimizer->slots()[0].values;
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = static_cast<float>(i);
  std::ranges::fill(optimizer->slots()[1].values, 100.0f);
  std::vector<float> gradient(m.size(), 0.0f);
  Stream stream(Device::cpu(), 1);
  TransformCounts counts;
  const auto transform = optimizer->message_transform();
  optimizer->use_exchange(kCodec, stream);
  transform->submit(nullptr, {{gradient.data(), 0}, 1, 0}, {kFlatAlignment, kFlatAlignment}, &counts, stream);
  for (std::size_t i = 0; i < m.size(); ++i) {
    EXPECT_EQ(gradient[i], i / kFlatAlignment == 1 ? 0.9f * m[i] / 10 : 0.0f) << i;
  }
}

TEST(OnebitAdam, ElementsWithoutGradientsStayPutWhateverAMessageSays) {
  const auto optimizer = make_onebit_adam("onebit_adam", 2);
  Stream stream(Device::cpu(), 1);
  std::vector<float> weights = {1, 1};
  optimizer->use_exchange(kFloating, stream);
  optimizer->apply(weights, std::vector<float>{0, 1}, 0.01f, stream);
  optimizer->use_exchange(kCodec, stream);
  for (int step = 0; step < 10; ++step) optimizer->apply(weights, std::vector<float>{0.5f, 0.5f}, 0.01f, stream);
  EXPECT_EQ(weights[0], 1.0f);
  EXPECT_EQ(optimizer->slots()[0].values[0], 0.0f);
  EXPECT_LT(weights[1], 1.0f);
}

/// The direction of a gradient that is far beyond the root of v.
float limit_of(Optimizer& optimizer, Stream& stream) {
  std::ranges::fill(optimizer.slots()[1].values, 1e-12f);
  std::vector<float> gradient(kFlatAlignment, 1.0f);
  TransformCounts counts;
  optimizer.use_exchange(kCodec, stream);
  optimizer.message_transform()->submit(nullptr, {{gradient.data(), 0}, 1, 0}, {0, kFlatAlignment}, &counts, stream);
  return gradient[0];
}

TEST(OnebitAdam, DirectionsAreLimitedToTheLargestOfAdam) {
  // A gradient that grows by the factor b2 / b1 a step makes the largest m / sqrt(v).
  const auto adam = make_optimizer("adam", {}, 1);
  Stream stream(Device::cpu(), 1);
  std::vector<float> weight = {0};
  for (int step = 0; step < 300; ++step) {
    adam->apply(weight, std::vector<float>{1e-15f * std::pow(0.999f / 0.9f, static_cast<float>(step))}, 1, stream);
  }
  const float largest = adam->slots()[0].values[0] / std::sqrt(adam->slots()[1].values[0]);
  const auto onebit = make_onebit_adam("onebit_adam", kFlatAlignment);
  int updates = 0;  // of v
  for (const int next : {1, 17, 100000}) {
    onebit->use_exchange(kFloating, stream);
    onebit->count_updates(static_cast<std::uint64_t>(next - updates));
    updates = next;
    const double corrected = double{limit_of(*onebit, stream)} * std::sqrt(1 - std::pow(double{0.999f}, next));
    EXPECT_NEAR(corrected, largest, 1e-2) << next;
  }
}

TEST(OnebitAdam, GoesOnFromASavedState) {
  Stream stream(Device::cpu(), 1);
  const auto whole = make_onebit_adam("onebit_adam", 1);
  whole->use_exchange(kFloating, stream);
  whole->count_updates(7);
  whole->use_exchange(kCodec, stream);
  whole->count_updates(5);
  const auto resumed = make_onebit_adam("onebit_adam", 1);
  resumed->restore_state(whole->state());
  for (const std::size_t exchange : {kCodec, kFloating}) {
    whole->use_exchange(exchange, stream);
    resumed->use_exchange(exchange, stream);
    for (const std::uint64_t ahead : {0u, 3u}) {
      EXPECT_EQ(bits_of(resumed->rates(0.5f, ahead)), bits_of(whole->rates(0.5f, ahead)));
    }
  }
  EXPECT_THROW(resumed->restore_state({{"onebit_adam_updates", "3"}}), DataError);
  EXPECT_EQ(resumed->state(), whole->state());
}

TEST(ZeroOneAdam, IntervalsOfItsVarianceDouble) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step < 40; ++step) {
    if (is_variance_step(step, 2)) steps.push_back(step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 4, 6, 10, 14, 22, 30));
  EXPECT_TRUE(is_variance_step(15, 16));
  EXPECT_FALSE(is_variance_step(17, 16));
  EXPECT_FALSE(is_variance_step(INT64_MAX, 16));
  EXPECT_TRUE(is_variance_step(INT64_MAX, 1));  // 2^63 - 1
  EXPECT_THROW(is_variance_step(1, 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::onebit_adam_test
