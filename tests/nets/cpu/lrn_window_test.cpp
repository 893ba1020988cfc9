#include "nets/cpu/lrn_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "tests/nets/reference_net.h"
#include "tests/support/bits.h"
#include "tests/support/simd_targets.h"

namespace terngrad::cpu::lrn_window_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Result {
  std::vector<float> output;
  std::vector<float> input_gradient;
};

Result normalize(const LrnWindow& window, const std::vector<float>& input, const std::vector<float>& output_gradient) {
  const std::int64_t num_pixels = static_cast<std::int64_t>(input.size()) / window.channels;
  Buffer<float> scratch(lrn_scratch_elements(window));
  for (float& value : scratch.span()) value = NAN;  // the initial contents must not matter
  Result result{std::vector<float>(input.size(), NAN), std::vector<float>(input.size(), NAN)};
  lrn_forward(window, input.data(), num_pixels, result.output.data(), scratch.data());
  for (float& value : scratch.span()) value = NAN;
  lrn_backward(window, input.data(), output_gradient.data(), num_pixels, result.input_gradient.data(), scratch.data());
  return result;
}

LrnSpec spec_of(const LrnWindow& w) { return {.radius = w.radius, .k = w.k, .alpha = w.alpha, .beta = w.beta}; }

/// Inputs and gradients of several magnitudes, from 1e-3 to 1e3.
struct Example {
  std::vector<float> input;
  std::vector<float> output_gradient;
  Example(std::int64_t num_pixels, int channels)
      : input(test::random_floats(static_cast<std::size_t>(num_pixels * channels), 1)),
        output_gradient(test::random_floats(input.size(), 2)) {
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] *= std::pow(10.0f, static_cast<float>(static_cast<int>(i / 7 % 7) - 3));
    }
  }
};

TEST(LrnWindow, MatchesAPlainLoopOnEverySimdTarget) {
  for (const int channels : {1, 3, 5, 20, 64, 65, 700}) {
    for (const int radius : {0, 1, 2, 4, 7, 1000}) {
      for (const float beta : {0.75f, 0.6f}) {
        const LrnWindow window{.channels = channels, .radius = radius, .k = 1.5f, .alpha = 0.3f, .beta = beta};
        const Example example(1 + 1300 / channels, channels);  // more pixels than the kernel processes at once
        const auto x = test::widen(example.input);
        const auto g = test::widen(example.output_gradient);
        const auto output = test::lrn_forward(spec_of(window), channels, x);
        const auto input_gradient = test::lrn_backward(spec_of(window), channels, x, g);
        testing::for_each_target([&](const std::string& target) {
          const Result result = normalize(window, example.input, example.output_gradient);
          EXPECT_LE(test::relative_difference(result.output, output), 2e-6)
              << target << ", " << channels << " channels, radius " << radius << ", beta " << beta;
          EXPECT_LE(test::relative_difference(result.input_gradient, input_gradient), 4e-6)
              << target << ", " << channels << " channels, radius " << radius << ", beta " << beta;
        });
      }
    }
  }
}

TEST(LrnWindow, EverySimdTargetGivesTheSameBits) {
  for (int channels = 1; channels <= 70; ++channels) {
    for (const float beta : {0.75f, 0.6f}) {
      const LrnWindow window{.channels = channels, .radius = 4, .k = 1, .alpha = 0.1f, .beta = beta};
      const Example example(19, channels);
      const Result best = normalize(window, example.input, example.output_gradient);
      testing::for_each_target([&](const std::string& target) {
        const Result result = normalize(window, example.input, example.output_gradient);
        EXPECT_EQ(testing::bits_of(result.output), testing::bits_of(best.output))
            << target << ", " << channels << " channels";
        EXPECT_EQ(testing::bits_of(result.input_gradient), testing::bits_of(best.input_gradient))
            << target << ", " << channels << " channels";
      });
    }
  }
}

TEST(LrnWindow, PowersAreAccurateForEveryBase) {
  // One channel and alpha 0: y = x k^-0.75 over all exponents of s and y.
  for (int exponent = -126; exponent <= 127; ++exponent) {
    for (int step = 0; step < 64; ++step) {
      const float k = std::ldexp(1 + static_cast<float>(step) / 64, exponent);
      const LrnWindow window{.channels = 1, .radius = 0, .k = k, .alpha = 0, .beta = 0.75f};
      const Result result = normalize(window, {1.0f}, {1.0f});
      const double expected = std::pow(double{k}, -0.75);
      ASSERT_NEAR(double{result.output[0]}, expected, 6e-7 * expected) << k;
      if (exponent < -70) continue;  // s^-1.75 overflows
      ASSERT_NEAR(double{result.input_gradient[0]}, expected, 6e-7 * expected) << k;
    }
  }
}

TEST(LrnWindow, NanReachesItsWindowOnly) {
  for (const float beta : {0.75f, 0.6f}) {
    const LrnWindow window{.channels = 40, .radius = 3, .k = 1, .alpha = 0.1f, .beta = beta};
    Example example(3, 40);
    example.input[40 + 17] = NAN;
    testing::for_each_target([&](const std::string& target) {
      const Result result = normalize(window, example.input, example.output_gradient);
      for (int i = 0; i < 120; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(std::isnan(result.output[at]), std::abs(i - 57) <= 3) << target << ", element " << i;
        // A gradient depends on the bases in its window, and these on their own windows.
        EXPECT_EQ(std::isnan(result.input_gradient[at]), std::abs(i - 57) <= 6) << target << ", element " << i;
      }
    });
  }
}

TEST(LrnWindow, AnInfinityMakesItsOutputNanAndItsNeighboursZero) {
  for (const float beta : {0.75f, 0.6f}) {
    const LrnWindow window{.channels = 20, .radius = 2, .k = 1, .alpha = 0.1f, .beta = beta};
    for (const float large : {kInfinity, -kInfinity, 1e30f}) {  // the square of 1e30 is infinite
      Example example(1, 20);
      example.input[9] = large;
      testing::for_each_target([&](const std::string& target) {
        const Result result = normalize(window, example.input, example.output_gradient);
        for (std::size_t c = 0; c < 20; ++c) {
          const bool is_near = c >= 7 && c <= 11;
          if (c == 9 && std::isinf(large)) {
            EXPECT_TRUE(std::isnan(result.output[c])) << target;
            EXPECT_TRUE(std::isnan(result.input_gradient[c])) << target;
          } else {
            EXPECT_EQ(result.output[c] == 0, is_near) << target << ", channel " << c << ": " << result.output[c];
          }
        }
      });
    }
  }
}

TEST(LrnWindow, NoPixelsWriteNothing) {
  const LrnWindow window{.channels = 20, .radius = 2, .k = 1, .alpha = 0.1f, .beta = 0.75f};
  EXPECT_TRUE(normalize(window, {}, {}).output.empty());
}

}  // namespace
}  // namespace terngrad::cpu::lrn_window_test
