#include "nets/cuda/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "support/sanitized.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::batch_norm_test {
namespace {

using terngrad::testing::bits_of;
using terngrad::testing::GuardedArray;
using test::Doubles;
using test::random_floats;
using CudaBatchNorm = terngrad::testing::CudaTest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Inputs of a pass of several workers.
struct Case {
  BatchNormShape shape;
  int workers = 1;
  std::vector<float> input;
  std::vector<float> output_gradient;
  std::vector<float> gamma;  // empty: no gamma
  std::vector<float> beta;

  Case slice(int worker) const {
    Case result = *this;
    const auto size = static_cast<std::ptrdiff_t>(shape.rows * shape.channels);
    result.workers = 1;
    result.input = {input.begin() + worker * size, input.begin() + (worker + 1) * size};
    result.output_gradient = {output_gradient.begin() + worker * size, output_gradient.begin() + (worker + 1) * size};
    return result;
  }
};

Case make_case(std::int64_t rows, int channels, Activation activation, bool has_gamma, int workers) {
  const auto size = static_cast<std::size_t>(workers * rows * channels);
  Case c{{.rows = rows, .channels = channels, .activation = activation},
         workers,
         random_floats(size, 1),
         random_floats(size, 2),
         {},
         random_floats(static_cast<std::size_t>(channels), 4)};
  for (std::size_t i = 0; i < size; ++i) c.input[i] += static_cast<float>(i % 3);  // channels with different means
  if (has_gamma) c.gamma = random_floats(static_cast<std::size_t>(channels), 3);
  return c;
}

struct Result {
  std::vector<float> output;
  std::vector<float> mean;
  std::vector<float> variance;
  std::vector<float> input_gradient;
  std::vector<float> gamma_gradient;
  std::vector<float> beta_gradient;
};

enum class InputGradient { kWanted, kInPlace, kUnwanted };

/// Forward and backward. Arrays start `start` elements after aligned addresses; workers' gradients are `kGap` apart.
Result on_device(const Case& c, std::size_t start, Stream& stream, InputGradient kind = InputGradient::kWanted) {
  constexpr std::int64_t kGap = 4;
  const auto channels = static_cast<std::size_t>(c.shape.channels);
  const auto workers = static_cast<std::size_t>(c.workers);
  const std::int64_t stride = c.shape.channels + kGap;
  const auto array = [&](const std::vector<float>& values) { return GuardedArray<float>(values, start, stream); };
  const auto unwritten = [&](std::size_t size) { return array(std::vector<float>(size, 77.0f)); };
  GuardedArray<float> input = array(c.input);
  GuardedArray<float> output = unwritten(c.input.size());
  GuardedArray<float> output_gradient = array(c.output_gradient);
  GuardedArray<float> input_gradient = unwritten(c.input.size());
  GuardedArray<float> gamma = array(c.gamma);
  GuardedArray<float> beta = array(c.beta);
  GuardedArray<float> mean = unwritten(workers * channels);
  GuardedArray<float> variance = unwritten(workers * channels);
  GuardedArray<float> inverse = unwritten(workers * channels);
  GuardedArray<float> gamma_gradients = unwritten(workers * static_cast<std::size_t>(stride));
  GuardedArray<float> beta_gradients = unwritten(workers * static_cast<std::size_t>(stride));
  GuardedArray<double> scratch(
      std::vector<double>(static_cast<std::size_t>(batch_norm_scratch(c.shape, c.workers)), kNan), 0, stream);

  const BatchNormParameters parameters{c.gamma.empty() ? nullptr : gamma.data(), beta.data()};
  const BatchStatistics statistics{mean.data(), variance.data(), inverse.data()};
  batch_norm_forward(c.shape, c.workers, input.data(), parameters, statistics, output.data(), scratch.data(), stream);
  const bool is_in_place = kind == InputGradient::kInPlace;
  const bool has_gamma = !c.gamma.empty();
  batch_norm_backward(c.shape, c.workers, parameters, statistics,
                      {.input = input.data(),
                       .output = c.shape.activation == Activation::kRelu ? output.data() : nullptr,
                       .output_gradient = output_gradient.data(),
                       .input_gradient = is_in_place                        ? output_gradient.data()
                                         : kind == InputGradient::kUnwanted ? nullptr
                                                                            : input_gradient.data(),
                       .gamma_gradients = {has_gamma ? gamma_gradients.data() : nullptr, stride},
                       .beta_gradients = {beta_gradients.data(), stride}},
                      scratch.data(), stream);
  (void)scratch.values();  // checks the guards
  const auto packed = [&](const std::vector<float>& gradients) {
    std::vector<float> result;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (i % static_cast<std::size_t>(stride) < channels) {
        result.push_back(gradients[i]);
      } else {
        EXPECT_EQ(gradients[i], 77.0f) << "written between the gradients of workers";
      }
    }
    return result;
  };
  return {output.values(),
          mean.values(),
          variance.values(),
          is_in_place ? output_gradient.values() : input_gradient.values(),
          has_gamma ? packed(gamma_gradients.values()) : gamma_gradients.values(),
          packed(beta_gradients.values())};
}

/// Compares with tests/nets/reference_layers.h, for one worker.
void expect_matches_reference(const Case& c, const Result& found) {
  const auto gamma = c.gamma.empty() ? std::nullopt : std::optional(Initializer::constant(1));
  const BatchNormSpec spec{.epsilon = c.shape.epsilon, .activation = c.shape.activation, .gamma = gamma};
  const ImageShape image{1, static_cast<int>(c.shape.rows), c.shape.channels};
  const NetPlan plan = plan_net({"test", {{"norm", spec}}}, image, static_cast<int>(c.input.size()));
  const LayerPlan& layer = plan.layers[0];
  const auto channels = static_cast<std::size_t>(c.shape.channels);
  Doubles parameters(static_cast<std::size_t>(plan.layout.flat_elements()), 0.0);
  const auto at = [&](int tensor) { return static_cast<std::ptrdiff_t>(plan.layout.segment(tensor).offset); };
  std::copy(c.beta.begin(), c.beta.end(), parameters.begin() + at(layer.beta));
  if (!c.gamma.empty()) std::copy(c.gamma.begin(), c.gamma.end(), parameters.begin() + at(layer.gamma));

  const test::ChannelStatistics statistics = test::channel_statistics(test::widen(c.input), channels);
  const Doubles output = test::batch_norm_forward(layer, plan.layout, parameters, test::widen(c.input), statistics);
  Doubles gradient(parameters.size(), 0.0);
  // The reference uses the signs of the GPU's output for the ReLU.
  const Doubles input_gradient =
      test::batch_norm_backward(layer, plan.layout, parameters, test::widen(c.input), test::widen(found.output),
                                test::widen(c.output_gradient), gradient);
  EXPECT_LE(test::relative_difference(found.mean, statistics.mean), 1e-7);
  EXPECT_LE(test::relative_difference(found.variance, statistics.variance), 1e-7);
  double inverse_deviation = 0;  // the largest
  for (const double variance : statistics.variance) {
    inverse_deviation = std::max(inverse_deviation, 1 / std::sqrt(variance + double{c.shape.epsilon}));
  }
  // Rounding of inputs and means, which are below 4, scaled by the normalization.
  const double rounding = 1e-6 + 3e-7 * inverse_deviation;
  for (std::size_t i = 0; i < output.size(); ++i) {
    ASSERT_NEAR(found.output[i], output[i], rounding) << i;
    ASSERT_NEAR(found.input_gradient[i], input_gradient[i], rounding * inverse_deviation) << i;
  }
  const double of_sums = rounding * std::sqrt(static_cast<double>(c.shape.rows));
  for (std::size_t k = 0; k < channels; ++k) {
    EXPECT_NEAR(found.beta_gradient[k], gradient[static_cast<std::size_t>(at(layer.beta)) + k], of_sums);
    if (c.gamma.empty()) continue;
    EXPECT_NEAR(found.gamma_gradient[k], gradient[static_cast<std::size_t>(at(layer.gamma)) + k], of_sums);
  }
}

TEST_F(CudaBatchNorm, MatchesTheReferenceForEachWorkerAlone) {
  Stream stream(Device::cuda());
  constexpr int kWorkers = 2;
  for (const int channels : testing::few({3, 33, 1, 8, 20, 64})) {
    for (const std::int64_t rows : {1, 2, 50, 300}) {
      for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
        for (const bool has_gamma : {false, true}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << channels << ", gamma " << has_gamma << ", ReLU "
                                            << (activation == Activation::kRelu));
          const Case both = make_case(rows, channels, activation, has_gamma, kWorkers);
          const Result together = on_device(both, 0, stream);
          for (int w = 0; w < kWorkers; ++w) {
            const Case slice = both.slice(w);
            const Result alone = on_device(slice, 1, stream);
            expect_matches_reference(slice, alone);
            const auto expect_slice = [&](const std::vector<float>& all, const std::vector<float>& one) {
              const auto part = std::span(all).subspan(static_cast<std::size_t>(w) * one.size(), one.size());
              EXPECT_EQ(bits_of(part), bits_of(one));
            };
            expect_slice(together.output, alone.output);
            expect_slice(together.mean, alone.mean);
            expect_slice(together.variance, alone.variance);
            expect_slice(together.input_gradient, alone.input_gradient);
            if (has_gamma) expect_slice(together.gamma_gradient, alone.gamma_gradient);
            expect_slice(together.beta_gradient, alone.beta_gradient);
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(CudaBatchNorm, SumsOfSeveralChunksMatchTheReference) {
  Stream stream(Device::cuda());
  const Case c = make_case(5000, 5, Activation::kRelu, true, 1);
  expect_matches_reference(c, on_device(c, 0, stream));
}

TEST_F(CudaBatchNorm, InputGradientMayBeInPlaceOrLeftOut) {
  Stream stream(Device::cuda());
  for (const int channels : {3, 8}) {
    const Case c = make_case(70, channels, Activation::kRelu, true, 2);
    const Result expected = on_device(c, 0, stream);
    EXPECT_EQ(bits_of(on_device(c, 0, stream, InputGradient::kInPlace).input_gradient),
              bits_of(expected.input_gradient));
    const Result without = on_device(c, 0, stream, InputGradient::kUnwanted);
    EXPECT_EQ(without.input_gradient, std::vector<float>(c.input.size(), 77.0f));
    EXPECT_EQ(bits_of(without.beta_gradient), bits_of(expected.beta_gradient));
  }
}

TEST_F(CudaBatchNorm, EvaluationHasTrainingsBitsForEqualStatistics) {
  Stream stream(Device::cuda());
  for (const int channels : {3, 8, 64}) {
    for (const bool has_gamma : {false, true}) {
      const Case c = make_case(40, channels, Activation::kRelu, has_gamma, 1);
      const Result training = on_device(c, 0, stream);
      for (const std::size_t start : {0u, 1u}) {
        GuardedArray<float> input(c.input, start, stream);
        GuardedArray<float> gamma(c.gamma, start, stream);
        GuardedArray<float> beta(c.beta, start, stream);
        GuardedArray<float> mean(training.mean, start, stream);
        GuardedArray<float> variance(training.variance, start, stream);
        GuardedArray<float> output(std::vector<float>(c.input.size(), 77.0f), start, stream);
        batch_norm_inference(c.shape, input.data(), {has_gamma ? gamma.data() : nullptr, beta.data()}, mean.data(),
                             variance.data(), output.data(), stream);
        EXPECT_EQ(bits_of(output.values()), bits_of(training.output));
      }
    }
  }
}

TEST_F(CudaBatchNorm, VarianceOfAConstantIsZeroAndNeverBelow) {
  Stream stream(Device::cuda());
  constexpr int kChannels = 64;
  Case c = make_case(1000, kChannels, Activation::kNone, false, 1);
  for (std::size_t i = 0; i < c.input.size(); ++i) c.input[i] = c.input[i % kChannels];
  const Result found = on_device(c, 0, stream);
  for (std::size_t k = 0; k < kChannels; ++k) {
    EXPECT_EQ(found.mean[k], c.input[k]);
    EXPECT_GE(found.variance[k], 0.0f);
    EXPECT_LE(found.variance[k], 1e-14f);
  }
}

TEST_F(CudaBatchNorm, VarianceIsRightFarFromZero) {
  Stream stream(Device::cuda());
  Case c = make_case(1000, 1, Activation::kNone, false, 1);
  for (std::size_t i = 0; i < c.input.size(); ++i) c.input[i] = i % 2 == 0 ? 10000.0f : 10000.25f;
  const Result found = on_device(c, 0, stream);
  EXPECT_EQ(found.mean[0], 10000.125f);
  EXPECT_NEAR(found.variance[0], 0.015625, 1e-7);
}

TEST_F(CudaBatchNorm, WhatIsNotFiniteShowsInItsChannelAlone) {
  Stream stream(Device::cuda());
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    Case c = make_case(50, 4, Activation::kRelu, true, 1);
    c.input[4 * 7 + 2] = bad;
    const Result found = on_device(c, 0, stream);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(std::isfinite(found.mean[i]) && std::isfinite(found.variance[i]), i != 2);
      EXPECT_EQ(std::isnan(found.gamma_gradient[i]), i == 2);
    }
    for (std::size_t i = 0; i < c.input.size(); ++i) EXPECT_EQ(std::isnan(found.input_gradient[i]), i % 4 == 2) << i;
  }
}

}  // namespace
}  // namespace terngrad::cuda::batch_norm_test
