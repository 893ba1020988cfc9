#include "kernels/tensor/averaged_residual.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.h"
#include "support/codes/averaged_residuals.h"
#include "support/gradients.h"
#include "support/simd_targets.h"

namespace terngrad::averaged_residual_test {
namespace {

using testing::bits_of;
using testing::elements_of;
using testing::residual_after;
using testing::ResidualSteps;

/// residual_after by the definition.
std::vector<float> expected(const ResidualSteps& steps, const ResidualAverage& average) {
  std::vector<float> e(steps.encoded[0].size());
  for (std::size_t step = 0; step < steps.encoded.size(); ++step) {
    const bool is_reset = average.reset != 0 && (average.step.step + step) % average.reset == 0;
    for (std::size_t begin = 0; begin < e.size(); begin += 64) {
      const std::size_t end = std::min(begin + 64, e.size());
      float max = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const float unsent = steps.encoded[step][i] - steps.sent[step][i];
        const float kept = average.decay * (is_reset ? 0.0f : e[i]);
        const float added = average.weight * unsent;
        e[i] = kept + added;
        max = std::max(max, std::fabs(e[i]));
      }
      const float scale = max / 127.0f;
      const bool is_kept = scale >= std::numeric_limits<float>::min() && std::isfinite(scale);
      for (std::size_t i = begin; i < end; ++i) {
        e[i] = is_kept ? scale * static_cast<float>(static_cast<int>(std::nearbyint(e[i] / scale))) : 0.0f;
      }
    }
  }
  return e;
}

TEST(AveragedResidual, MatchesTheDefinitionOnEveryTarget) {
  for (const std::size_t n : {1u, 63u, 64u, 65u, 1000u, 4096u, 40000u}) {
    const ResidualSteps steps = testing::residual_steps(n, 4, /*exponent=*/0);
    for (const std::uint64_t reset : {0u, 3u}) {
      const ResidualAverage average{.decay = 0.8f, .weight = 0.2f, .reset = reset, .step = {.step = 1}};
      const auto bits = bits_of(expected(steps, average));
      testing::for_each_target([&](const std::string& target) {
        Stream stream(Device::cpu(), 3);
        ASSERT_EQ(bits_of(elements_of(residual_after(steps, average, stream), n, stream)), bits) << target << ' ' << n;
      });
    }
  }
}

TEST(AveragedResidual, KeepsWithinHalfAStepOfTheBlockAndForgetsWhatIsTooSmallOrTooLarge) {
  Stream stream;
  constexpr std::size_t kCount = 200;
  const ResidualAverage all{.decay = 0, .weight = 1};
  for (const int exponent : {-20, 0, 100}) {
    const ResidualSteps steps = testing::residual_steps(kCount, 1, exponent);
    const std::vector<float> found = elements_of(residual_after(steps, all, stream), kCount, stream);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto block = steps.encoded[0].begin() + static_cast<std::ptrdiff_t>(i / 64 * 64);
      const auto end = std::min(block + 64, steps.encoded[0].end());
      const float max =
          std::fabs(*std::max_element(block, end, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
      EXPECT_LE(std::fabs(found[i] - steps.encoded[0][i]), max / 127 * 0.5001f);
    }
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {0x1p-125f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    ResidualSteps steps = testing::residual_steps(kCount, 1, 0);
    std::fill_n(steps.encoded[0].begin(), 64, value == 0x1p-125f ? value : 1.0f);
    std::fill_n(steps.sent[0].begin(), 64, 0.0f);
    if (value != 0x1p-125f) steps.encoded[0][5] = value;
    const std::vector<float> words = residual_after(steps, all, stream);
    EXPECT_TRUE(std::all_of(words.begin(), words.begin() + kResidualBlockWords, [](float w) { return w == 0; }));
    EXPECT_NE(words[2 * kResidualBlockWords - 1], 0);
  }
}

TEST(AveragedResidual, StaysOfADroppedStepAndOfATensorThatIsNotFinite) {
  Stream stream;
  const ResidualSteps steps = testing::residual_steps(100, 1, 0);
  for (const bool is_dropped : {false, true}) {
    for (const bool is_flagged : {false, true}) {
      std::vector<float> state(static_cast<std::size_t>(residual_words(100)), 3.0f);
      const std::vector<float> before = state;
      const std::uint32_t skip = is_dropped ? 1 : 0;
      const float flag = is_flagged ? std::numeric_limits<float>::quiet_NaN() : 0.5f;
      update_residual({.encoded = steps.encoded[0].data(),
                       .sent = steps.sent[0].data(),
                       .state = state.data(),
                       .count = 100,
                       .flag = &flag,
                       .skip = &skip},
                      {.decay = 0.5f, .weight = 0.5f}, stream);
      EXPECT_EQ(bits_of(state) == bits_of(before), is_dropped || is_flagged);
    }
  }
}

}  // namespace
}  // namespace terngrad::averaged_residual_test
