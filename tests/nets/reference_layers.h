// Double-precision reference of layers over several images or with several inputs: batch norm, dropout, concatenation,
// sum. Formulas are plain loops.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/random/philox.h"
#include "nets/net_plan.h"

namespace terngrad::test {

using Doubles = std::vector<double>;

/// Parameters of a pass besides weights and examples.
struct ReferencePass {
  bool is_training = true;
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
  Doubles state = {};  // [flat elements of the state layout]
};

struct ChannelStatistics {
  Doubles mean;
  Doubles variance;  // biased
};

inline ChannelStatistics channel_statistics(const Doubles& input, std::size_t channels) {
  ChannelStatistics result{Doubles(channels, 0.0), Doubles(channels, 0.0)};
  const double count = static_cast<double>(input.size() / channels);
  for (std::size_t i = 0; i < input.size(); ++i) result.mean[i % channels] += input[i] / count;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double difference = input[i] - result.mean[i % channels];
    result.variance[i % channels] += difference * difference / count;
  }
  return result;
}

/// Statistics for normalization; in training also updates the moving statistics in `state`.
inline ChannelStatistics batch_norm_statistics(const LayerPlan& plan, const NetPlan& net, const Doubles& input,
                                               const ReferencePass& pass, Doubles& state) {
  const auto channels = static_cast<std::size_t>(plan.output.channels);
  double* mean = state.data() + net.state_layout.segment(plan.moving_mean).offset;
  double* variance = state.data() + net.state_layout.segment(plan.moving_variance).offset;
  double* weight = state.data() + net.state_layout.segment(plan.moving_weight).offset;
  if (!pass.is_training) return {Doubles(mean, mean + channels), Doubles(variance, variance + channels)};
  const ChannelStatistics batch = channel_statistics(input, channels);
  const auto decay = static_cast<double>(std::get<BatchNormSpec>(plan.operation).decay);
  *weight = decay * *weight + (1 - decay);
  for (std::size_t c = 0; c < channels; ++c) {
    mean[c] += (1 - decay) / *weight * (batch.mean[c] - mean[c]);
    variance[c] += (1 - decay) / *weight * (batch.variance[c] - variance[c]);
  }
  return batch;
}

inline Doubles batch_norm_forward(const LayerPlan& plan, const Layout& layout, const Doubles& parameters,
                                  const Doubles& input, const ChannelStatistics& statistics) {
  const auto& spec = std::get<BatchNormSpec>(plan.operation);
  const auto channels = static_cast<std::size_t>(plan.output.channels);
  const double* beta = parameters.data() + layout.segment(plan.beta).offset;
  const double* gamma = plan.gamma < 0 ? nullptr : parameters.data() + layout.segment(plan.gamma).offset;
  Doubles output(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::size_t c = i % channels;
    const double deviation = std::sqrt(statistics.variance[c] + static_cast<double>(spec.epsilon));
    output[i] = (gamma == nullptr ? 1 : gamma[c]) * (input[i] - statistics.mean[c]) / deviation + beta[c];
    if (spec.activation == Activation::kRelu && output[i] < 0) output[i] = 0;
  }
  return output;
}

/// Input gradient in training, where mean and variance depend on all elements of a channel; adds the gradients of beta
/// and gamma to `gradient`.
inline Doubles batch_norm_backward(const LayerPlan& plan, const Layout& layout, const Doubles& parameters,
                                   const Doubles& input, const Doubles& output, Doubles output_gradient,
                                   Doubles& gradient) {
  const auto& spec = std::get<BatchNormSpec>(plan.operation);
  const auto channels = static_cast<std::size_t>(plan.output.channels);
  const ChannelStatistics batch = channel_statistics(input, channels);
  const double count = static_cast<double>(input.size() / channels);
  const auto normalized = [&](std::size_t i) {
    const std::size_t c = i % channels;
    return (input[i] - batch.mean[c]) / std::sqrt(batch.variance[c] + static_cast<double>(spec.epsilon));
  };
  Doubles sum(channels, 0.0);
  Doubles product(channels, 0.0);
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (spec.activation == Activation::kRelu && output[i] <= 0) output_gradient[i] = 0;
    sum[i % channels] += output_gradient[i];
    product[i % channels] += output_gradient[i] * normalized(i);
  }
  Doubles input_gradient(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::size_t c = i % channels;
    const double gamma =
        plan.gamma < 0 ? 1 : parameters[static_cast<std::size_t>(layout.segment(plan.gamma).offset) + c];
    input_gradient[i] = gamma / std::sqrt(batch.variance[c] + static_cast<double>(spec.epsilon)) *
                        (output_gradient[i] - sum[c] / count - normalized(i) * product[c] / count);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    gradient[static_cast<std::size_t>(layout.segment(plan.beta).offset) + c] += sum[c];
    if (plan.gamma >= 0) gradient[static_cast<std::size_t>(layout.segment(plan.gamma).offset) + c] += product[c];
  }
  return input_gradient;
}

/// Dropout's factors of `count` elements, from draw `first_draw`.
inline Doubles dropout_factors(const LayerPlan& plan, const ReferencePass& pass, std::int64_t first_draw,
                               std::size_t count) {
  const float keep_prob = std::get<DropoutSpec>(plan.operation).keep_prob;
  const DrawKey key{.seed = pass.seed, .step = pass.step, .worker = pass.worker, .purpose = DrawPurpose::kDropout};
  Doubles factors(count, 1.0);
  for (std::size_t i = 0; i < count && pass.is_training; ++i) {
    const bool is_kept = draw_uniform(key, static_cast<std::uint64_t>(first_draw) + i) < keep_prob;
    factors[i] = is_kept ? 1 / static_cast<double>(keep_prob) : 0;
  }
  return factors;
}

inline bool is_rectified_sum(const LayerPlan& plan) {
  return std::get<AddSpec>(plan.operation).activation == Activation::kRelu;
}

/// Calls visit(input element, output element) for each element that a layer of padded channels copies.
template <class Visit>
void for_each_kept(const LayerPlan& plan, std::size_t num_examples, Visit&& visit) {
  const auto in = static_cast<std::size_t>(plan.input.channels);
  const auto out = static_cast<std::size_t>(plan.output.channels);
  const std::size_t num_pixels = num_examples * static_cast<std::size_t>(plan.input.height * plan.input.width);
  for (std::size_t pixel = 0; pixel < num_pixels; ++pixel) {
    for (std::size_t c = 0; c < in; ++c) visit(pixel * in + c, pixel * out + c);
  }
}

/// Calls visit(input, element of the input, output element) for each element that a concatenation copies.
template <class Visit>
void for_each_copy(const LayerPlan& plan, std::size_t num_examples, Visit&& visit) {
  const auto channels = static_cast<std::size_t>(plan.output.channels);
  const std::size_t num_pixels = num_examples * static_cast<std::size_t>(plan.output.height * plan.output.width);
  std::size_t first = 0;
  for (std::size_t input = 0; input < plan.input_shapes.size(); ++input) {
    const auto width = static_cast<std::size_t>(plan.input_shapes[input].channels);
    for (std::size_t pixel = 0; pixel < num_pixels; ++pixel) {
      for (std::size_t c = 0; c < width; ++c) visit(input, pixel * width + c, pixel * channels + first + c);
    }
    first += width;
  }
}

}  // namespace terngrad::test
