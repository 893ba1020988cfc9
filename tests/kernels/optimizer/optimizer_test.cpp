#include "kernels/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/elementwise_runs.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::optimizer_test {
namespace {

using testing::bits_of;

/// Runs body(weights, accumulator, gradient, stream) for many lengths, alignments, threads and targets.
template <class Body>
void for_each_case(const Body& body) {
  testing::for_each_elementwise_run([&](std::size_t n, std::size_t start, Stream& stream) {
    std::vector<float> w = testing::gaussian(n + start, 1);
    std::vector<float> a = testing::gaussian(n + start, 2);
    const std::vector<float> g = testing::gaussian(n + start, 3);
    body(std::span(w).subspan(start), std::span(a).subspan(start), std::span<const float>(g).subspan(start), stream);
  });
}

TEST(Gd, RoundsEveryOperation) {
  for_each_case([](std::span<float> w, std::span<float>, std::span<const float> g, Stream& stream) {
    std::vector<std::uint32_t> want;
    for (std::size_t i = 0; i < w.size(); ++i) want.push_back(bits_of(reference::gd(w[i], g[i], 0.1f)));
    update_gd(w, g, 0.1f, stream);
    ASSERT_EQ(bits_of(w), want);
  });
}

TEST(Momentum, RoundsEveryOperation) {
  for_each_case([](std::span<float> w, std::span<float> a, std::span<const float> g, Stream& stream) {
    std::vector<std::uint32_t> want_a;
    std::vector<std::uint32_t> want_w;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float accumulator = reference::momentum_accumulator(a[i], g[i], 0.9f);
      want_a.push_back(bits_of(accumulator));
      want_w.push_back(bits_of(reference::gd(w[i], accumulator, 0.01f)));
    }
    update_momentum(w, a, g, 0.01f, 0.9f, stream);
    ASSERT_EQ(bits_of(a), want_a);
    ASSERT_EQ(bits_of(w), want_w);
  });
}

/// Adds zeros of both signs, denormals, and values whose squares over- or underflow.
std::vector<float> with_extremes(std::span<const float> ordinary) {
  std::vector<float> values(ordinary.begin(), ordinary.end());
  const float extremes[] = {0.0f, -0.0f, 1e-42f, -1e-30f, 3e38f, -1.9e19f, 1e-20f};
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = extremes[i / 3 % std::size(extremes)];
  return values;
}

/// Compares an update of Adam's kind with its reference.
/// @param update     (w, m, v, g, stream)
/// @param reference  (element, g) -> element
template <class Update, class Reference>
void expect_moments(const Update& update, const Reference& reference) {
  for_each_case([&](std::span<float> w, std::span<float> m, std::span<const float> ordinary, Stream& stream) {
    const std::vector<float> g = with_extremes(ordinary);
    std::vector<float> v(w.size());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = i % 5 == 0 ? 0.0f : std::abs(ordinary[i]);
    std::vector<std::uint32_t> want_w;
    std::vector<std::uint32_t> want_m;
    std::vector<std::uint32_t> want_v;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const reference::AdamElement e = reference({w[i], m[i], v[i]}, g[i]);
      want_w.push_back(bits_of(e.weight));
      want_m.push_back(bits_of(e.first_moment));
      want_v.push_back(bits_of(e.second_moment));
    }
    update(w, m, std::span(v), g, stream);
    ASSERT_EQ(bits_of(w), want_w);
    ASSERT_EQ(bits_of(m), want_m);
    ASSERT_EQ(bits_of(v), want_v);
  });
}

constexpr AdamConstants kMomentsConstants{.beta1 = 0.8f, .beta2 = 0.99f, .epsilon = 1e-4f};

TEST(Adam, RoundsEveryOperation) {
  expect_moments([](auto w, auto m, auto v, const auto& g,
                    Stream& stream) { update_adam(w, m, v, g, 0.01f, kMomentsConstants, stream); },
                 [](reference::AdamElement e, float g) { return reference::adam(e, g, 0.01f, 0.8f, 0.99f, 1e-4f); });
}

TEST(RestingAdam, RoundsEveryOperation) {
  expect_moments([](auto w, auto m, auto v, const auto& g,
                    Stream& stream) { update_resting_adam(w, m, v, g, 0.01f, kMomentsConstants, stream); },
                 [](reference::AdamElement e, float g) { return reference::resting_adam(e, g, 0.01f, 1e-4f); });
}

TEST(RestingAdam, ElementsWithoutAVarianceStayPut) {
  std::vector<float> w = {1, 1, 1, 1};
  std::vector<float> m = {0, 0, 0, 3};
  const std::vector<float> v = {0, 0, 0.25f, std::numeric_limits<float>::infinity()};
  Stream stream(Device::cpu(), 1);
  update_resting_adam(w, m, v, std::vector<float>{0.5f, -1e30f, 0.5f, 0.5f}, 0.25f, {}, stream);
  EXPECT_EQ(w, (std::vector<float>{1, 1, 0.875f, 1}));
  EXPECT_EQ(m, (std::vector<float>{0, 0, 0.5f * (0.5f + 1e-8f), 0}));
}

TEST(AdamDirection, RoundsEveryOperation) {
  for_each_case([](std::span<float> m, std::span<float> ordinary, std::span<const float> squares, Stream& stream) {
    std::vector<float> g = with_extremes(ordinary);
    std::vector<float> v;
    for (std::size_t i = 0; i < g.size(); ++i) v.push_back(i % 5 == 0 ? 0.0f : std::abs(squares[i]));
    std::vector<std::uint32_t> want;
    for (std::size_t i = 0; i < g.size(); ++i) {
      want.push_back(bits_of(reference::adam_direction({0, m[i], v[i]}, g[i], 0.5f, 0.8f, 1e-4f)));
    }
    const float bound = 0.5f;
    to_adam_direction(g, m, v, &bound, kMomentsConstants, stream);
    ASSERT_EQ(bits_of(g), want);
  });
}

TEST(AdamDirection, HidesNothingThatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> g = {infinity, -infinity, std::nanf(""), infinity, std::nanf(""), 1e30f, 1e30f};
  const std::vector<float> v = {0, 1, 1, 1e-20f, 0, 1, 0};
  Stream stream(Device::cpu(), 1);
  const float bound = 2;
  to_adam_direction(g, std::vector<float>(7, 0.0f), v, &bound, {}, stream);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(std::isfinite(g[static_cast<std::size_t>(i)])) << i;
  EXPECT_EQ(g[5], 2.0f);
  EXPECT_EQ(g[6], 0.0f);
}

TEST(Nadam, RoundsEveryOperation) {
  constexpr UpdateRates kRates = {0.01f, 0.003f, 1e-4f};
  expect_moments([&](auto w, auto m, auto v, const auto& g,
                     Stream& stream) { update_nadam(w, m, v, g, kRates, kMomentsConstants, stream); },
                 [&](reference::AdamElement e, float g) { return reference::nadam(e, g, kRates, 0.8f, 0.99f); });
}

TEST(Adam, MovesByTheStepSizeAtFirst) {
  // m = 0.1 G, v = 0.001 G^2: m / sqrt(v) is sqrt(10) times the sign of G.
  for (const float g : {1e-3f, 1.0f, -250.0f}) {
    std::vector<float> w = {1};
    std::vector<float> m = {0};
    std::vector<float> v = {0};
    Stream stream(Device::cpu(), 1);
    update_adam(w, m, v, std::vector<float>{g}, 0.25f, {}, stream);
    EXPECT_NEAR(m[0], 0.1f * g, 1e-6f * std::abs(g));
    EXPECT_NEAR(v[0], 0.001f * g * g, 1e-7f * g * g);
    EXPECT_NEAR(w[0], 1.0f - std::copysign(0.25f * std::sqrt(10.0f), g), 1e-3f);
  }
}

TEST(Adam, ElementWhoseSquareOverflowsStaysWhereItIs) {
  std::vector<float> w = {1};
  std::vector<float> m = {0};
  std::vector<float> v = {0};
  Stream stream(Device::cpu(), 1);
  for (const float g : {2e19f, 1.0f, 0.0f}) update_adam(w, m, v, std::vector<float>{g}, 0.25f, {}, stream);
  EXPECT_EQ(w[0], 1.0f);
  EXPECT_TRUE(std::isinf(v[0]));
}

TEST(Rmsprop, RoundsEveryOperation) {
  constexpr RmspropConstants kConstants{.decay = 0.8f, .momentum = 0.7f, .epsilon = 0.5f};
  for_each_case([&](std::span<float> w, std::span<float> mom, std::span<const float> ordinary, Stream& stream) {
    const std::vector<float> g = with_extremes(ordinary);
    std::vector<float> ms(w.size());
    for (std::size_t i = 0; i < ms.size(); ++i) ms[i] = i % 5 == 0 ? 1.0f : std::abs(ordinary[i]);
    std::vector<std::uint32_t> want_w;
    std::vector<std::uint32_t> want_ms;
    std::vector<std::uint32_t> want_mom;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const reference::RmspropElement e = reference::rmsprop({w[i], ms[i], mom[i]}, g[i], 0.01f, 0.8f, 0.7f, 0.5f);
      want_w.push_back(bits_of(e.weight));
      want_ms.push_back(bits_of(e.mean_square));
      want_mom.push_back(bits_of(e.update));
    }
    update_rmsprop(w, ms, mom, g, 0.01f, kConstants, stream);
    ASSERT_EQ(bits_of(w), want_w);
    ASSERT_EQ(bits_of(ms), want_ms);
    ASSERT_EQ(bits_of(mom), want_mom);
  });
}

TEST(Rmsprop, IsWhatTheOriginalDoes) {
  // Computed by hand, with numbers that are exact in binary.
  std::vector<float> w = {10};
  std::vector<float> ms = {6};
  std::vector<float> mom = {4};
  Stream stream(Device::cpu(), 1);
  const RmspropConstants constants{.decay = 0.5f, .momentum = 0.25f, .epsilon = 4.0f};
  update_rmsprop(w, ms, mom, std::vector<float>{2}, 0.75f, constants, stream);
  EXPECT_EQ(ms[0], 5.0f);   // 0.5 * 6 + 0.5 * 2^2
  EXPECT_EQ(mom[0], 1.5f);  // 0.25 * 4 + 0.75 * 2 / sqrt(5 + 4)
  EXPECT_EQ(w[0], 8.5f);
}

TEST(Ema, RoundsEveryOperation) {
  for_each_case([](std::span<float> shadow, std::span<float>, std::span<const float> w, Stream& stream) {
    std::vector<std::uint32_t> want;
    for (std::size_t i = 0; i < w.size(); ++i) want.push_back(bits_of(reference::ema(shadow[i], w[i], 0.9999f)));
    update_ema(shadow, w, 0.9999f, stream);
    ASSERT_EQ(bits_of(shadow), want);
  });
}

TEST(WeightDecay, RoundsEveryOperation) {
  for_each_case([](std::span<float> g, std::span<float>, std::span<const float> w, Stream& stream) {
    std::vector<std::uint32_t> want;
    for (std::size_t i = 0; i < w.size(); ++i) want.push_back(bits_of(reference::weight_decay(g[i], w[i], 0.0005f)));
    add_weight_decay(g, w, 0.0005f, stream);
    ASSERT_EQ(bits_of(g), want);
  });
}

TEST(Momentum, IsWhatTheOriginalDoes) {
  // Two steps by hand: a = 1, w = 10 - 0.5; a = 0.5 + 2 = 2.5, w = 9.5 - 1.25.
  std::vector<float> w = {10};
  std::vector<float> a = {0};
  Stream stream(Device::cpu(), 1);
  update_momentum(w, a, std::vector<float>{1}, 0.5f, 0.5f, stream);
  update_momentum(w, a, std::vector<float>{2}, 0.5f, 0.5f, stream);
  EXPECT_EQ(a[0], 2.5f);
  EXPECT_EQ(w[0], 8.25f);
}

TEST(Optimizers, KeepZeroPaddingZero) {
  std::vector<float> w(20, 0.0f);
  std::vector<float> a(20, 0.0f);
  std::vector<float> v(20, 0.0f);
  const std::vector<float> g(20, 0.0f);
  Stream stream(Device::cpu(), 1);
  update_momentum(w, a, g, 0.1f, 0.9f, stream);
  update_adam(w, a, v, g, 0.1f, {}, stream);
  update_nadam(w, a, v, g, {0.1f, 0.1f, 1e-7f}, {}, stream);
  update_rmsprop(w, v, a, g, 0.1f, {}, stream);
  update_ema(a, w, 0.9f, stream);
  for (const float value : v) EXPECT_EQ(bits_of(value), 0u);
  for (const float value : w) EXPECT_EQ(bits_of(value), 0u);
  for (const float value : a) EXPECT_EQ(bits_of(value), 0u);
}

/// The rates of an update; all but Nadam's read the first.
constexpr UpdateRates rates_of(float rate) { return {rate, 0.5f * rate, 0.01f * rate}; }

/// An update of `w` with two slots by `g`; the rate is given by value and by pointer.
using Apply = void (*)(std::span<float> w, std::span<float> a, std::span<float> b, std::span<const float> g, float rate,
                       Stream& stream, const StepScalars& scalars);
constexpr Apply kAll[] = {
    [](auto w, auto, auto, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_gd(w, g, rate, stream, scalars);
    },
    [](auto w, auto a, auto, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_momentum(w, a, g, rate, 0.9f, stream, scalars);
    },
    [](auto w, auto a, auto b, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_adam(w, a, b, g, rate, {}, stream, scalars);
    },
    [](auto w, auto a, auto b, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_nadam(w, a, b, g, rates_of(rate), {}, stream, scalars);
    },
    [](auto w, auto a, auto b, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_rmsprop(w, b, a, g, rate, {}, stream, scalars);
    },
    [](auto w, auto, auto, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      update_ema(w, g, rate, stream, scalars);
    },
    [](auto w, auto, auto, auto g, float rate, Stream& stream, const StepScalars& scalars) {
      add_weight_decay(w, g, rate, stream, scalars);
    },
};

std::vector<float> updated(Apply apply, float by_value, const StepScalars& scalars) {
  constexpr std::size_t kNum = 20000;
  std::vector<float> arrays = testing::gaussian(3 * kNum, 1);
  for (std::size_t i = 2 * kNum; i < 3 * kNum; ++i) arrays[i] = std::abs(arrays[i]);
  const std::span<float> all(arrays);
  Stream stream(Device::cpu(), 3);
  apply(all.subspan(0, kNum), all.subspan(kNum, kNum), all.subspan(2 * kNum), testing::gaussian(kNum, 2), by_value,
        stream, scalars);
  return arrays;
}

TEST(Optimizers, TakeTheRateFromMemory) {
  const UpdateRates rates = rates_of(0.25f);
  for (const Apply apply : kAll) {
    const std::vector<float> expected = updated(apply, rates[0], {});
    EXPECT_EQ(bits_of(updated(apply, 99.0f, {.rate = rates.data()})), bits_of(expected));
    EXPECT_NE(bits_of(updated(apply, 99.0f, {})), bits_of(expected));
  }
}

TEST(Optimizers, WriteNothingWhereTheyAreSkipped) {
  const std::vector<float> before = updated([](auto, auto, auto, auto, float, Stream&, const StepScalars&) {}, 0, {});
  for (const Apply apply : kAll) {
    const std::vector<float> expected = updated(apply, 0.25f, {});
    ASSERT_NE(bits_of(expected), bits_of(before));
    for (const std::uint32_t skip : {0u, 1u, 0x80000000u}) {
      EXPECT_EQ(bits_of(updated(apply, 0.25f, {.skip = &skip})), bits_of(skip == 0 ? expected : before)) << skip;
    }
  }
}

TEST(Optimizers, RefuseLengthsThatDiffer) {
  std::vector<float> three(3);
  std::vector<float> four(4);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(update_gd(three, four, 1, stream), InvalidArgument);
  EXPECT_THROW(update_momentum(three, four, three, 1, 1, stream), InvalidArgument);
  EXPECT_THROW(update_momentum(three, three, four, 1, 1, stream), InvalidArgument);
  EXPECT_THROW(update_adam(three, three, three, four, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_adam(three, four, three, three, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_adam(three, three, four, three, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_nadam(three, three, three, four, {}, {}, stream), InvalidArgument);
  EXPECT_THROW(update_nadam(three, four, three, three, {}, {}, stream), InvalidArgument);
  EXPECT_THROW(update_nadam(three, three, four, three, {}, {}, stream), InvalidArgument);
  EXPECT_THROW(update_rmsprop(three, three, three, four, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_rmsprop(three, four, three, three, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_rmsprop(three, three, four, three, 1, {}, stream), InvalidArgument);
  EXPECT_THROW(update_ema(three, four, 1, stream), InvalidArgument);
  EXPECT_THROW(add_weight_decay(three, four, 1, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::optimizer_test
