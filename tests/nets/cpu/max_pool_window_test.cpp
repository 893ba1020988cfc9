#include "nets/cpu/max_pool_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/runtime/cpu/simd.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cpu::max_pool_window_test {
namespace {

struct Result {
  std::vector<float> output;
  std::vector<float> input_gradient;
  friend bool operator==(const Result&, const Result&) = default;
};

Result pool(const MaxPoolWindow& window, const std::vector<float>& input) {
  Result result;
  result.output.resize(static_cast<std::size_t>(window.output.num_elements()), NAN);
  result.input_gradient.resize(input.size(), NAN);
  const auto output_gradient = test::random_floats(result.output.size(), 9);
  max_pool_forward(window, input.data(), result.output.data());
  max_pool_backward(window, input.data(), result.output.data(), output_gradient.data(), result.input_gradient.data());
  return result;
}

TEST(MaxPoolWindow, EverySimdTargetGivesTheSameBits) {
  for (int channels = 1; channels <= 37; ++channels) {
    // Adjacent and overlapping windows, both with padding.
    for (const int size : {2, 3}) {
      const MaxPoolWindow window{.input = {5, 5, channels},
                                 .output = {3, 3, channels},
                                 .padding = {size - 2, 1, size - 2, 1},
                                 .window = size,
                                 .stride = 2,
                                 .relu_gradient = MaxPoolWindow::ReluGradient::kAtOutput};
      const auto input = test::random_floats(static_cast<std::size_t>(window.input.num_elements()), 8);
      force_simd_target("");
      const Result best = pool(window, input);
      for (const SimdTarget& target : simd_targets()) {
        force_simd_target(target.name);
        EXPECT_EQ(pool(window, input), best) << target.name << ", " << channels << " channels, window " << size;
      }
      force_simd_target("");
    }
  }
}

TEST(MaxPoolWindow, ReluGradientDropsOutputsThatAreNotPositive) {
  MaxPoolWindow window{.input = {2, 6, 1}, .output = {1, 3, 1}, .padding = {}, .window = 2, .stride = 2};
  const std::vector<float> input = {-1, -2, 0, 0, 3, 1,  //
                                    -3, -4, 0, 0, 2, 3};
  const std::vector<float> output_gradient = {5, 6, 7};
  std::vector<float> output(3);
  std::vector<float> gradient(12);
  max_pool_forward(window, input.data(), output.data());
  EXPECT_EQ(output, (std::vector<float>{-1, 0, 3}));
  max_pool_backward(window, input.data(), output.data(), output_gradient.data(), gradient.data());
  EXPECT_EQ(gradient, (std::vector<float>{5, 0, 6, 0, 7, 0, 0, 0, 0, 0, 0, 0}));
  window.relu_gradient = MaxPoolWindow::ReluGradient::kAtOutput;
  max_pool_backward(window, input.data(), output.data(), output_gradient.data(), gradient.data());
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace terngrad::cpu::max_pool_window_test
