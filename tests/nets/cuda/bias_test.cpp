#include "nets/cuda/bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "nets/cpu/relu.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::bias_test {
namespace {

using terngrad::testing::bits_of;
using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaBias = terngrad::testing::CudaTest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(CudaBias, AddsAndActivates) {
  Stream stream(Device::cuda());
  for (const int channels : {1, 3, 4, 10, 20, 64, 260}) {
    for (const std::int64_t rows : {0, 1, 2, 37}) {
      for (const std::size_t start : {0u, 1u}) {
        for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
          for (const bool has_biases : {false, true}) {
            std::vector<float> expected = random_floats(static_cast<std::size_t>(rows * channels), 1);
            const std::vector<float> biases = random_floats(static_cast<std::size_t>(channels), 2);
            GuardedArray<float> values(expected, start, stream);
            GuardedArray<float> biases_there(biases, start, stream);
            for (std::size_t i = 0; i < expected.size(); ++i) {
              if (has_biases) expected[i] += biases[i % static_cast<std::size_t>(channels)];
              if (activation == Activation::kRelu && !(expected[i] > 0)) expected[i] = 0;
            }
            add_bias(values.data(), has_biases ? biases_there.data() : nullptr, rows, channels, activation, stream);
            ASSERT_EQ(bits_of(values.values()), bits_of(expected)) << rows << " x " << channels << " from " << start;
          }
        }
      }
    }
  }
}

TEST_F(CudaBias, ReluGivesZeroForWhatIsNotPositive) {
  Stream stream(Device::cuda());
  const std::vector<float> values = {kNan, -0.0f, -kInfinity, kInfinity, 1e-45f, -1e-45f};
  const std::vector<float> expected = {0, 0, 0, kInfinity, 1e-45f, 0};
  for (const bool has_biases : {false, true}) {
    GuardedArray<float> there(values, 0, stream);
    GuardedArray<float> biases(std::vector<float>{-0.0f}, 0, stream);
    add_bias(there.data(), has_biases ? biases.data() : nullptr, 6, 1, Activation::kRelu, stream);
    EXPECT_EQ(bits_of(there.values()), bits_of(expected));
  }
}

std::vector<float> cpu_relu_gradient(const std::vector<float>& output, std::vector<float> gradient) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  cpu::ReluGradient relu(context, "relu", cpu::vector_desc(static_cast<int>(output.size())));
  scratchpad.allocate();
  relu.run(output.data(), gradient.data());
  return gradient;
}

/// Random numbers with special values (zeros, infinities, NaN) among them, in a pattern that depends on `stream`.
std::vector<float> with_specials(std::size_t count, std::uint32_t stream, std::size_t period) {
  constexpr float kSpecial[] = {0, -0.0f, kInfinity, kNan, -kInfinity, 1e-45f, -kNan};
  std::vector<float> values = random_floats(count, stream);
  for (std::size_t i = 0; i < count; i += period) values[i] = kSpecial[i / period % std::size(kSpecial)];
  return values;
}

TEST_F(CudaBias, ReluGradientIsTheCpus) {
  Stream stream(Device::cuda());
  for (const std::size_t count : {0u, 1u, 4u, 63u, 5000u}) {
    const std::vector<float> output = with_specials(count, 3, 2);
    const std::vector<float> gradient = with_specials(count, 4, 3);
    for (const std::size_t start : {0u, 3u}) {
      GuardedArray<float> there(gradient, start, stream);
      GuardedArray<float> output_there(output, start, stream);
      relu_gradient(there.data(), output_there.data(), static_cast<std::int64_t>(count), stream);
      const std::vector<float> expected = count == 0 ? gradient : cpu_relu_gradient(output, gradient);
      terngrad::testing::expect_same_values(there.values(), expected, "gradient");
    }
  }
}

/// Gradients of several workers, `kGap` elements apart.
std::vector<float> sum_rows_on_device(const std::vector<float>& gradient, std::int64_t rows, int channels,
                                      int num_workers, Stream& stream) {
  constexpr std::int64_t kGap = 3;
  const std::int64_t stride = channels + kGap;
  GuardedArray<float> from(gradient, 1, stream);
  GuardedArray<float> to(std::vector<float>(static_cast<std::size_t>(num_workers * stride), 77.0f), 1, stream);
  GuardedArray<float> scratch(
      std::vector<float>(static_cast<std::size_t>(bias_gradient_scratch(rows, channels, num_workers)), kNan), 0,
      stream);
  bias_gradient(from.data(), rows, channels, num_workers, {to.data(), stride}, scratch.data(), stream);
  const std::vector<float> all = to.values();
  (void)scratch.values();  // checks the guards
  std::vector<float> sums;
  for (std::int64_t i = 0; i < num_workers * stride; ++i) {
    const float value = all[static_cast<std::size_t>(i)];
    if (i % stride < channels) {
      sums.push_back(value);
    } else {
      EXPECT_EQ(value, 77.0f) << "written between the gradients of workers";
    }
  }
  return sums;
}

TEST_F(CudaBias, GradientIsTheSumOverRowsOfEachWorker) {
  Stream stream(Device::cuda());
  constexpr int kWorkers = 3;
  for (const int channels : {1, 5, 10, 32, 33, 100}) {
    for (const std::int64_t rows : {1, 2, 63, 64, 65, 300, 2100}) {
      const auto per_worker = static_cast<std::size_t>(rows * channels);
      const std::vector<float> gradient = random_floats(kWorkers * per_worker, 5);
      const std::vector<float> sums = sum_rows_on_device(gradient, rows, channels, kWorkers, stream);
      for (std::size_t w = 0; w < kWorkers; ++w) {
        const std::vector<float> own(gradient.begin() + static_cast<std::ptrdiff_t>(w * per_worker),
                                     gradient.begin() + static_cast<std::ptrdiff_t>((w + 1) * per_worker));
        const auto found =
            std::span(sums).subspan(w * static_cast<std::size_t>(channels), static_cast<std::size_t>(channels));
        const std::vector<float> alone = sum_rows_on_device(own, rows, channels, 1, stream);
        ASSERT_EQ(bits_of(alone), bits_of(std::vector<float>(found.begin(), found.end())));
        test::Doubles expected(static_cast<std::size_t>(channels), 0.0);
        for (std::size_t i = 0; i < per_worker; ++i) expected[i % static_cast<std::size_t>(channels)] += own[i];
        for (std::size_t c = 0; c < expected.size(); ++c) {
          // Rounding errors of terms below 1; a missing or doubled row would be far larger.
          ASSERT_NEAR(found[c], expected[c], 1e-6 * std::sqrt(static_cast<double>(rows)))
              << rows << " x " << channels << ", channel " << c;
        }
      }
    }
  }
}

TEST_F(CudaBias, GradientOfOneIsExactForManyRows) {
  Stream stream(Device::cuda());
  constexpr std::int64_t kRows = 20011;
  EXPECT_EQ(sum_rows_on_device(std::vector<float>(kRows * 2, 1.0f), kRows, 2, 1, stream),
            (std::vector<float>{kRows, kRows}));
  std::vector<float> gradient(kRows * 2, 0.0f);
  gradient[2 * 12345] = kNan;
  const std::vector<float> sums = sum_rows_on_device(gradient, kRows, 2, 1, stream);
  EXPECT_TRUE(std::isnan(sums[0]));
  EXPECT_EQ(sums[1], 0.0f);
}

}  // namespace
}  // namespace terngrad::cuda::bias_test
