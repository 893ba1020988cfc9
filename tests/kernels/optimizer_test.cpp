#include "kernels/optimizer.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/simd_targets.h"

namespace terngrad {
namespace {

using testing::bits_of;

/// Runs body(weights, gradient, accumulator, stream) for many lengths, alignments, threads and targets.
template <class Body>
void for_each_case(const Body& body) {
  testing::for_each_target([&](const std::string&) {
    for (const int threads : {1, 3}) {
      for (const std::size_t n : {0u, 1u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 100u, 50000u}) {
        for (const std::size_t start : {0u, 1u, 5u}) {
          std::vector<float> w = testing::gaussian(n + start, 1);
          std::vector<float> a = testing::gaussian(n + start, 2);
          const std::vector<float> g = testing::gaussian(n + start, 3);
          Stream stream(Device::cpu(), threads);
          body(std::span(w).subspan(start), std::span(a).subspan(start), std::span<const float>(g).subspan(start),
               stream);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
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
  const std::vector<float> g(20, 0.0f);
  Stream stream(Device::cpu(), 1);
  update_momentum(w, a, g, 0.1f, 0.9f, stream);
  update_ema(a, w, 0.9f, stream);
  for (const float value : w) EXPECT_EQ(bits_of(value), 0u);
  for (const float value : a) EXPECT_EQ(bits_of(value), 0u);
}

TEST(Optimizers, RefuseLengthsThatDiffer) {
  std::vector<float> three(3);
  std::vector<float> four(4);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(update_gd(three, four, 1, stream), InvalidArgument);
  EXPECT_THROW(update_momentum(three, four, three, 1, 1, stream), InvalidArgument);
  EXPECT_THROW(update_momentum(three, three, four, 1, 1, stream), InvalidArgument);
  EXPECT_THROW(update_ema(three, four, 1, stream), InvalidArgument);
  EXPECT_THROW(add_weight_decay(three, four, 1, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad
