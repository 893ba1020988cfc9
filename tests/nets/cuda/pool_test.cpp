#include "nets/cuda/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/runtime/parallel.h"
#include "nets/cpu/layer.h"
#include "nets/cpu/max_pool_window.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::pool_test {
namespace {

using terngrad::testing::expect_same_values;
using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaPool = terngrad::testing::CudaTest;

constexpr int kImages = 3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A plan of one pooling layer.
template <class Spec>
NetPlan plan_of(const ImageShape& image, int window, int stride, Padding padding) {
  const auto size = [&](int in) {
    return padding == Padding::kValid ? (in - window) / stride + 1 : (in + stride - 1) / stride;
  };
  const Spec spec{.window = window, .stride = stride, .padding = padding};
  return plan_net({"test", {{"pool", spec}}}, image, size(image.height) * size(image.width) * image.channels);
}

template <class Spec>
PoolWindow window_of(const LayerPlan& plan, bool relu_gradient = false) {
  PoolWindow window{.input = plan.input,
                    .output = plan.output,
                    .padding = plan.padding,
                    .window = plan.window,
                    .stride = std::get<Spec>(plan.operation).stride,
                    .relu_gradient = relu_gradient};
  if constexpr (std::is_same_v<Spec, AveragePoolSpec>) {
    window.counts_padding = std::get<Spec>(plan.operation).counts_padding;
  }
  return window;
}

struct Result {
  std::vector<float> output;
  std::vector<float> input_gradient;
};

std::vector<float> nans(std::size_t count) { return std::vector<float>(count, kNan); }

Result max_pool_on_cpu(const PoolWindow& w, const std::vector<float>& input,
                       const std::vector<float>& output_gradient) {
  using ReluGradient = cpu::MaxPoolWindow::ReluGradient;
  const cpu::MaxPoolWindow window{.input = w.input,
                                  .output = w.output,
                                  .padding = w.padding,
                                  .window = w.window.height,
                                  .stride = w.stride,
                                  .relu_gradient = w.relu_gradient ? ReluGradient::kAtOutput : ReluGradient::kThrough};
  Result result{nans(output_gradient.size()), nans(input.size())};
  for (int n = 0; n < kImages; ++n) {
    const std::int64_t in = n * w.input.num_elements();
    const std::int64_t out = n * w.output.num_elements();
    max_pool_forward(window, input.data() + in, result.output.data() + out);
    max_pool_backward(window, input.data() + in, result.output.data() + out, output_gradient.data() + out,
                      result.input_gradient.data() + in);
  }
  return result;
}

Result max_pool_on_device(const PoolWindow& w, const std::vector<float>& input,
                          const std::vector<float>& output_gradient, std::size_t start, Stream& stream) {
  GuardedArray<float> in(input, start, stream);
  GuardedArray<float> out(nans(output_gradient.size()), start, stream);
  GuardedArray<float> out_gradient(output_gradient, start, stream);
  GuardedArray<float> in_gradient(nans(input.size()), start, stream);
  max_pool_forward(w, kImages, in.data(), out.data(), stream);
  max_pool_backward(w, kImages, in.data(), out.data(), out_gradient.data(), in_gradient.data(), stream);
  return {out.values(), in_gradient.values()};
}

std::vector<NetPlan> max_pools(int channels) {
  using S = MaxPoolSpec;
  return {plan_of<S>({4, 6, channels}, 2, 2, Padding::kSame),  plan_of<S>({5, 7, channels}, 2, 2, Padding::kSame),
          plan_of<S>({7, 5, channels}, 3, 2, Padding::kSame),  plan_of<S>({8, 8, channels}, 3, 2, Padding::kValid),
          plan_of<S>({5, 4, channels}, 3, 1, Padding::kSame),  plan_of<S>({6, 6, channels}, 5, 1, Padding::kSame),
          plan_of<S>({7, 6, channels}, 1, 3, Padding::kSame),  plan_of<S>({8, 8, channels}, 2, 3, Padding::kValid),
          plan_of<S>({5, 5, channels}, 2, 2, Padding::kValid), plan_of<S>({4, 3, channels}, 7, 2, Padding::kSame),
          plan_of<S>({1, 1, channels}, 2, 2, Padding::kSame),  plan_of<S>({9, 2, channels}, 4, 3, Padding::kSame),
          plan_of<S>({8, 6, channels}, 3, 2, Padding::kHalf),  plan_of<S>({7, 9, channels}, 3, 2, Padding::kHalf)};
}

template <class Change>
void compare_max_pools(const Change& change) {
  Stream stream(Device::cuda());
  for (const int channels : {1, 3, 4, 20}) {
    for (const NetPlan& plan : max_pools(channels)) {
      for (const bool relu_gradient : {false, true}) {
        const PoolWindow w = window_of<MaxPoolSpec>(plan.layers[0], relu_gradient);
        std::vector<float> input = random_floats(static_cast<std::size_t>(kImages * w.input.num_elements()), 1);
        std::vector<float> gradient = random_floats(static_cast<std::size_t>(kImages * w.output.num_elements()), 2);
        change(input, gradient);
        const Result expected = max_pool_on_cpu(w, input, gradient);
        for (const std::size_t start : {0u, 1u}) {
          SCOPED_TRACE(::testing::Message()
                       << channels << " channels of " << w.input.height << " x " << w.input.width << ", window "
                       << w.window.height << ", stride " << w.stride << ", start " << start);
          const Result found = max_pool_on_device(w, input, gradient, start, stream);
          ASSERT_NO_FATAL_FAILURE(expect_same_values(found.output, expected.output, "output"));
          ASSERT_NO_FATAL_FAILURE(expect_same_values(found.input_gradient, expected.input_gradient, "input gradient"));
        }
      }
    }
  }
}

TEST_F(CudaPool, MaximaHaveTheCpusBits) {
  compare_max_pools([](std::vector<float>&, std::vector<float>&) {});
}

TEST_F(CudaPool, TheFirstOfEqualMaximaTakesTheGradient) {
  compare_max_pools([](std::vector<float>& input, std::vector<float>& gradient) {
    for (float& value : input) value = std::floor(value * 2);  // -2, -1, 0, 1
    for (std::size_t i = 0; i < input.size(); i += 3) input[i] = std::copysign(0.0f, input[i]);
    for (std::size_t i = 0; i < gradient.size(); i += 4) gradient[i] = -0.0f;
  });
}

TEST_F(CudaPool, WhatIsNotFiniteGoesWhereTheCpuHasIt) {
#ifndef __x86_64__
  GTEST_SKIP() << "other processors have other maxima with NaN";
#endif
  compare_max_pools([](std::vector<float>& input, std::vector<float>& gradient) {
    constexpr float kSpecial[] = {kNan, INFINITY, -INFINITY, 3.4e38f, -0.0f};
    for (std::size_t i = 0; i < input.size(); i += 3) input[i] = kSpecial[i / 3 % std::size(kSpecial)];
    for (std::size_t i = 1; i < gradient.size(); i += 4) gradient[i] = kSpecial[i / 4 % std::size(kSpecial)];
  });
}

TEST_F(CudaPool, AveragesMatchTheReference) {
  Stream stream(Device::cuda());
  using S = AveragePoolSpec;
  for (const int c : {1, 6, 8}) {
    const NetPlan whole = plan_net({"net", {{"pool", S{}}}}, {3, 8, c}, c);
    const S counting{.window = 3, .padding = Padding::kSame, .counts_padding = true};
    const NetPlan counted = plan_net({"net", {{"pool", counting}}}, {5, 4, c}, 5 * 4 * c);
    for (const NetPlan& plan :
         {whole, counted, plan_of<S>({4, 6, c}, 2, 2, Padding::kSame), plan_of<S>({8, 7, c}, 3, 2, Padding::kSame),
          plan_of<S>({5, 4, c}, 3, 1, Padding::kSame), plan_of<S>({4, 3, c}, 7, 1, Padding::kSame),
          plan_of<S>({7, 7, c}, 7, 1, Padding::kValid), plan_of<S>({8, 8, c}, 2, 3, Padding::kValid),
          plan_of<S>({5, 5, c}, 2, 2, Padding::kValid), plan_of<S>({7, 6, c}, 1, 3, Padding::kSame)}) {
      const PoolWindow w = window_of<S>(plan.layers[0]);
      const std::vector<float> input = random_floats(static_cast<std::size_t>(kImages * w.input.num_elements()), 1);
      const std::vector<float> gradient = random_floats(static_cast<std::size_t>(kImages * w.output.num_elements()), 2);
      const test::Doubles expected = test::reference_forward(plan.layers[0], plan.layout, {}, test::widen(input));
      test::Doubles no_tensors;
      const test::Doubles expected_gradient = test::reference_backward(
          plan.layers[0], plan.layout, {}, test::widen(input), expected, test::widen(gradient), no_tensors);
      for (const std::size_t start : {0u, 1u}) {
        GuardedArray<float> in(input, start, stream);
        GuardedArray<float> out(nans(gradient.size()), start, stream);
        GuardedArray<float> out_gradient(gradient, start, stream);
        GuardedArray<float> in_gradient(nans(input.size()), start, stream);
        average_pool_forward(w, kImages, in.data(), out.data(), stream);
        average_pool_backward(w, kImages, out_gradient.data(), in_gradient.data(), stream);
        // Float sums of up to 49 values, as in the CPU layer.
        EXPECT_LE(test::relative_difference(out.values(), expected), 1e-6) << plan.layers[0].input.height;
        EXPECT_LE(test::relative_difference(in_gradient.values(), expected_gradient), 1e-6);
      }
    }
  }
}

TEST_F(CudaPool, NoImagesAreNoWork) {
  Stream stream(Device::cuda());
  const NetPlan plan = plan_of<MaxPoolSpec>({4, 4, 4}, 2, 2, Padding::kSame);
  max_pool_forward(window_of<MaxPoolSpec>(plan.layers[0]), 0, nullptr, nullptr, stream);
  stream.synchronize();
}

}  // namespace
}  // namespace terngrad::cuda::pool_test
