#include "nets/cuda/lrn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/cpu/lrn_window.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::lrn_test {
namespace {

using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaLrn = terngrad::testing::CudaTest;

struct Result {
  std::vector<float> output;
  std::vector<float> input_gradient;
};

Result on_cpu(const LrnShape& shape, const std::vector<float>& input, const std::vector<float>& gradient) {
  const cpu::LrnWindow window{shape.channels, shape.radius, shape.k, shape.alpha, shape.beta};
  Buffer<float> scratch(cpu::lrn_scratch_elements(window));
  Result result{std::vector<float>(input.size()), std::vector<float>(input.size())};
  const auto pixels = static_cast<std::int64_t>(input.size()) / shape.channels;
  cpu::lrn_forward(window, input.data(), pixels, result.output.data(), scratch.data());
  cpu::lrn_backward(window, input.data(), gradient.data(), pixels, result.input_gradient.data(), scratch.data());
  return result;
}

Result on_device(const LrnShape& shape, const std::vector<float>& input, const std::vector<float>& gradient,
                 Stream& stream) {
  const std::vector<float> unwritten(input.size(), 77.0f);
  GuardedArray<float> in(input, 1, stream);
  GuardedArray<float> out(unwritten, 1, stream);
  GuardedArray<float> out_gradient(gradient, 1, stream);
  GuardedArray<float> in_gradient(unwritten, 1, stream);
  const auto pixels = static_cast<std::int64_t>(input.size()) / shape.channels;
  lrn_forward(shape, pixels, in.data(), out.data(), stream);
  lrn_backward(shape, pixels, in.data(), out_gradient.data(), in_gradient.data(), stream);
  return {out.values(), in_gradient.values()};
}

const std::vector<LrnShape> kShapes = {
    {.channels = 64, .radius = 4, .k = 1, .alpha = 0.001f / 9, .beta = 0.75f},
    {.channels = 96, .radius = 2, .k = 2, .alpha = 1e-4f, .beta = 0.75f},
    {.channels = 1, .radius = 4, .k = 1, .alpha = 1, .beta = 0.75f},
    {.channels = 5, .radius = 0, .k = 0.5f, .alpha = 2, .beta = 0.75f},
    {.channels = 3, .radius = 9, .k = 1, .alpha = 0.3f, .beta = 0.75f},
    {.channels = 33, .radius = 1, .k = 1e-3f, .alpha = 5, .beta = 0.75f},
    {.channels = 1500, .radius = 700, .k = 1, .alpha = 1e-3f, .beta = 0.75f},
};

std::vector<float> pixels_of(const LrnShape& shape, std::size_t pixels, std::uint32_t stream) {
  return random_floats(pixels * static_cast<std::size_t>(shape.channels), stream);
}

TEST_F(CudaLrn, ThreeQuartersHaveTheCpusBits) {
  Stream stream(Device::cuda());
  for (const LrnShape& shape : kShapes) {
    for (const std::size_t pixels : {1u, 2u, 7u, 100u}) {
      if (pixels > 10 && shape.channels > 1000) continue;
      SCOPED_TRACE(::testing::Message() << shape.channels << " channels, radius " << shape.radius << ", " << pixels);
      std::vector<float> input = pixels_of(shape, pixels, 1);
      for (std::size_t i = 0; i < input.size(); i += 5) input[i] *= 100;
      const std::vector<float> gradient = pixels_of(shape, pixels, 2);
      const Result expected = on_cpu(shape, input, gradient);
      const Result found = on_device(shape, input, gradient, stream);
      ASSERT_NO_FATAL_FAILURE(terngrad::testing::expect_same_values(found.output, expected.output, "output"));
      ASSERT_NO_FATAL_FAILURE(
          terngrad::testing::expect_same_values(found.input_gradient, expected.input_gradient, "input gradient"));
    }
  }
}

TEST_F(CudaLrn, WhatIsNotFiniteSpreadsAsOnTheCpu) {
  Stream stream(Device::cuda());
  constexpr float kSpecial[] = {INFINITY, -INFINITY, 1e30f, std::numeric_limits<float>::quiet_NaN(), -0.0f, 1e-40f};
  for (const LrnShape& shape : kShapes) {
    if (shape.channels > 1000) continue;
    std::vector<float> input = pixels_of(shape, 60, 1);
    std::vector<float> gradient = pixels_of(shape, 60, 2);
    for (std::size_t i = 0; i < input.size(); i += 23) input[i] = kSpecial[i / 23 % std::size(kSpecial)];
    for (std::size_t i = 0; i < gradient.size(); i += 41) gradient[i] = kSpecial[i / 41 % std::size(kSpecial)];
    for (std::size_t i = 200; i < gradient.size(); i += 3) gradient[i] = -0.0f;
    const Result expected = on_cpu(shape, input, gradient);
    const Result found = on_device(shape, input, gradient, stream);
    ASSERT_NO_FATAL_FAILURE(terngrad::testing::expect_same_values(found.output, expected.output, "output"));
    ASSERT_NO_FATAL_FAILURE(
        terngrad::testing::expect_same_values(found.input_gradient, expected.input_gradient, "input gradient"));
  }
}

TEST_F(CudaLrn, OtherPowersAreTheCpusWithinRounding) {
  Stream stream(Device::cuda());
  for (LrnShape shape : kShapes) {
    for (const float beta : {0.5f, 1.0f, 0.7f, 1.6f}) {
      if (shape.channels > 1000) continue;
      shape.beta = beta;
      const std::vector<float> input = pixels_of(shape, 20, 1);
      const std::vector<float> gradient = pixels_of(shape, 20, 2);
      const Result expected = on_cpu(shape, input, gradient);
      const Result found = on_device(shape, input, gradient, stream);
      EXPECT_LE(test::relative_difference(found.output, test::widen(expected.output)), 1e-6);
      EXPECT_LE(test::relative_difference(found.input_gradient, test::widen(expected.input_gradient)), 2e-6);
    }
  }
}

TEST_F(CudaLrn, RefusesMoreChannelsThanABlockHolds) {
  Stream stream(Device::cuda());
  const LrnShape most{.channels = kMaxLrnRow - 8, .radius = 4, .k = 1, .alpha = 1e-3f};
  const std::vector<float> input = pixels_of(most, 2, 1);
  const Result expected = on_cpu(most, input, input);
  EXPECT_EQ(on_device(most, input, input, stream).input_gradient, expected.input_gradient);
  LrnShape more = most;
  ++more.channels;
  EXPECT_THROW(lrn_forward(more, 1, nullptr, nullptr, stream), NotSupported);
  EXPECT_THROW(lrn_backward(more, 1, nullptr, nullptr, nullptr, stream), NotSupported);
}

}  // namespace
}  // namespace terngrad::cuda::lrn_test
