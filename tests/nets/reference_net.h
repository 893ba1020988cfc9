// A plain double-precision net: the oracle of the tests of layers and nets. Every formula is written out as a loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/philox.h"
#include "nets/net_plan.h"

namespace terngrad::test {

using Doubles = std::vector<double>;

/// Uniform values in [-1, 1) from stream `stream`; floats, so that both precisions see the same numbers.
inline std::vector<float> random_floats(std::size_t count, std::uint32_t stream) {
  const DrawKey key{.seed = 7, .step = 0, .worker = stream, .purpose = DrawPurpose::kSyntheticData};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 2 * draw_uniform(key, i) - 1;
  return values;
}

inline Doubles widen(std::span<const float> values) { return {values.begin(), values.end()}; }

/// max |a - b| / max |b|, the measure of every comparison here (max |a| where b is zero).
inline double relative_difference(std::span<const float> a, std::span<const double> b) {
  double difference = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : HUGE_VAL);
    magnitude = std::max(magnitude, std::abs(b[i]));
  }
  return magnitude > 0 ? difference / magnitude : difference;
}

inline std::vector<std::int32_t> cyclic_labels(int num_examples, int num_classes) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(num_examples));
  for (int n = 0; n < num_examples; ++n) labels[static_cast<std::size_t>(n)] = (3 * n + 1) % num_classes;
  return labels;
}

/// Calls visit(input index, weights index, output index) for every product of a layer on one image; for a pool the
/// weights index is 0. Indices count within one image, one tensor and one output image.
template <class Visit>
void for_each_product(const LayerPlan& plan, Visit&& visit) {
  const auto window = [&](int kernel, int stride, auto&& per_position) {
    for (int y = 0; y < plan.output.height; ++y)
      for (int x = 0; x < plan.output.width; ++x)
        for (int i = 0; i < kernel; ++i)
          for (int j = 0; j < kernel; ++j) {
            const int row = y * stride + i - plan.padding.top;
            const int column = x * stride + j - plan.padding.left;
            if (row < 0 || row >= plan.input.height || column < 0 || column >= plan.input.width) continue;
            per_position((row * plan.input.width + column) * plan.input.channels, i * kernel + j,
                         (y * plan.output.width + x) * plan.output.channels);
          }
  };
  const int in = plan.input.channels;
  const int out = plan.output.channels;
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  if (const auto* conv = std::get_if<ConvolutionSpec>(&plan.operation)) {
    window(conv->kernel, conv->stride, [&](int source, int tap, int target) {
      for (int c = 0; c < in; ++c)
        for (int o = 0; o < out; ++o) visit(at(source + c), at((tap * in + c) * out + o), at(target + o));
    });
  } else if (const auto* pool = std::get_if<MaxPoolSpec>(&plan.operation)) {
    window(pool->window, pool->stride, [&](int source, int, int target) {
      for (int c = 0; c < in; ++c) visit(at(source + c), std::size_t{0}, at(target + c));
    });
  } else if (const auto* average = std::get_if<AveragePoolSpec>(&plan.operation)) {
    window(average->window, average->stride, [&](int source, int, int target) {
      for (int c = 0; c < in; ++c) visit(at(source + c), std::size_t{0}, at(target + c));
    });
  } else {
    for (int i = 0; i < static_cast<int>(plan.input.num_elements()); ++i)
      for (int o = 0; o < out; ++o) visit(at(i), at(i * out + o), at(o));
  }
}

inline bool is_max_pool(const LayerPlan& plan) { return std::holds_alternative<MaxPoolSpec>(plan.operation); }

/// Elements of the image in each output's window.
inline Doubles window_sizes(const LayerPlan& plan) {
  Doubles sizes(static_cast<std::size_t>(plan.output.num_elements()), 0.0);
  for_each_product(plan, [&](std::size_t, std::size_t, std::size_t o) { sizes[o] += 1; });
  return sizes;
}

inline Doubles average_pool_forward(const LayerPlan& plan, const Doubles& input) {
  const auto in = static_cast<std::size_t>(plan.input.num_elements());
  const auto out = static_cast<std::size_t>(plan.output.num_elements());
  const Doubles sizes = window_sizes(plan);
  Doubles output(input.size() / in * out, 0.0);
  for (std::size_t n = 0; n < input.size() / in; ++n) {
    for_each_product(
        plan, [&](std::size_t i, std::size_t, std::size_t o) { output[n * out + o] += input[n * in + i] / sizes[o]; });
  }
  return output;
}

inline Doubles average_pool_backward(const LayerPlan& plan, const Doubles& output_gradient) {
  const auto in = static_cast<std::size_t>(plan.input.num_elements());
  const auto out = static_cast<std::size_t>(plan.output.num_elements());
  const Doubles sizes = window_sizes(plan);
  Doubles input_gradient(output_gradient.size() / out * in, 0.0);
  for (std::size_t n = 0; n < output_gradient.size() / out; ++n) {
    for_each_product(plan, [&](std::size_t i, std::size_t, std::size_t o) {
      input_gradient[n * in + i] += output_gradient[n * out + o] / sizes[o];
    });
  }
  return input_gradient;
}

/// k + alpha * sum of squares over the window of channels around each element.
inline Doubles lrn_bases(const LrnSpec& spec, int num_channels, const Doubles& input) {
  Doubles bases(input.size(), double{spec.k});
  for (std::size_t pixel = 0; pixel < input.size(); pixel += static_cast<std::size_t>(num_channels)) {
    for (int c = 0; c < num_channels; ++c) {
      for (int d = 0; d < num_channels; ++d) {
        if (std::abs(d - c) > spec.radius) continue;
        const double x = input[pixel + static_cast<std::size_t>(d)];
        bases[pixel + static_cast<std::size_t>(c)] += double{spec.alpha} * x * x;
      }
    }
  }
  return bases;
}

inline Doubles lrn_forward(const LrnSpec& spec, int num_channels, const Doubles& input) {
  const Doubles bases = lrn_bases(spec, num_channels, input);
  Doubles output(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) output[i] = input[i] / std::pow(bases[i], double{spec.beta});
  return output;
}

/// By the chain rule, an output at a time: y[c] depends on its own x directly and on each x of its window through s[c].
inline Doubles lrn_backward(const LrnSpec& spec, int num_channels, const Doubles& input,
                            const Doubles& output_gradient) {
  const Doubles bases = lrn_bases(spec, num_channels, input);
  Doubles input_gradient(input.size(), 0.0);
  for (std::size_t pixel = 0; pixel < input.size(); pixel += static_cast<std::size_t>(num_channels)) {
    for (int c = 0; c < num_channels; ++c) {
      const std::size_t i = pixel + static_cast<std::size_t>(c);
      const double by_base = -double{spec.beta} * input[i] * std::pow(bases[i], -double{spec.beta} - 1);
      input_gradient[i] += output_gradient[i] * std::pow(bases[i], -double{spec.beta});
      for (int d = 0; d < num_channels; ++d) {
        if (std::abs(d - c) > spec.radius) continue;
        const std::size_t j = pixel + static_cast<std::size_t>(d);
        input_gradient[j] += output_gradient[i] * by_base * 2 * double{spec.alpha} * input[j];
      }
    }
  }
  return input_gradient;
}

inline bool has_relu(const LayerPlan& plan) {
  if (const auto* conv = std::get_if<ConvolutionSpec>(&plan.operation)) return conv->activation == Activation::kRelu;
  if (const auto* fc = std::get_if<FullyConnectedSpec>(&plan.operation)) return fc->activation == Activation::kRelu;
  return false;
}

/// Output of one layer for `num_examples` images.
inline Doubles reference_forward(const LayerPlan& plan, const Layout& layout, const Doubles& parameters,
                                 const Doubles& input) {
  if (std::holds_alternative<AveragePoolSpec>(plan.operation)) return average_pool_forward(plan, input);
  if (const auto* lrn = std::get_if<LrnSpec>(&plan.operation)) return lrn_forward(*lrn, plan.input.channels, input);
  const auto in = static_cast<std::size_t>(plan.input.num_elements());
  const auto out = static_cast<std::size_t>(plan.output.num_elements());
  const std::size_t num_examples = input.size() / in;
  Doubles output(num_examples * out, is_max_pool(plan) ? -HUGE_VAL : 0.0);
  for (std::size_t n = 0; n < num_examples; ++n) {
    if (is_max_pool(plan)) {
      for_each_product(plan, [&](std::size_t i, std::size_t, std::size_t o) {
        output[n * out + o] = std::max(output[n * out + o], input[n * in + i]);
      });
      continue;
    }
    const double* weights = parameters.data() + layout.segment(plan.weights).offset;
    const double* biases = parameters.data() + layout.segment(plan.biases).offset;
    for (std::size_t o = 0; o < out; ++o) {
      output[n * out + o] = biases[o % static_cast<std::size_t>(plan.output.channels)];
    }
    for_each_product(plan, [&](std::size_t i, std::size_t w, std::size_t o) {
      output[n * out + o] += input[n * in + i] * weights[w];
    });
    if (!has_relu(plan)) continue;
    for (std::size_t o = 0; o < out; ++o) output[n * out + o] = std::max(output[n * out + o], 0.0);
  }
  return output;
}

/// Gradient of the input; adds those of the layer's tensors to `gradient`.
inline Doubles reference_backward(const LayerPlan& plan, const Layout& layout, const Doubles& parameters,
                                  const Doubles& input, const Doubles& output, Doubles output_gradient,
                                  Doubles& gradient) {
  if (std::holds_alternative<AveragePoolSpec>(plan.operation)) return average_pool_backward(plan, output_gradient);
  if (const auto* lrn = std::get_if<LrnSpec>(&plan.operation)) {
    return lrn_backward(*lrn, plan.input.channels, input, output_gradient);
  }
  const auto in = static_cast<std::size_t>(plan.input.num_elements());
  const auto out = static_cast<std::size_t>(plan.output.num_elements());
  Doubles input_gradient(input.size(), 0.0);
  for (std::size_t n = 0; n < input.size() / in; ++n) {
    if (is_max_pool(plan)) {
      std::vector<bool> is_taken(out, false);
      for_each_product(plan, [&](std::size_t i, std::size_t, std::size_t o) {
        if (is_taken[o] || input[n * in + i] != output[n * out + o]) return;
        is_taken[o] = true;
        input_gradient[n * in + i] += output_gradient[n * out + o];
      });
      continue;
    }
    const double* weights = parameters.data() + layout.segment(plan.weights).offset;
    double* weights_gradient = gradient.data() + layout.segment(plan.weights).offset;
    double* biases_gradient = gradient.data() + layout.segment(plan.biases).offset;
    for (std::size_t o = 0; o < out; ++o) {
      if (has_relu(plan) && output[n * out + o] <= 0) output_gradient[n * out + o] = 0;
      biases_gradient[o % static_cast<std::size_t>(plan.output.channels)] += output_gradient[n * out + o];
    }
    for_each_product(plan, [&](std::size_t i, std::size_t w, std::size_t o) {
      weights_gradient[w] += input[n * in + i] * output_gradient[n * out + o];
      input_gradient[n * in + i] += weights[w] * output_gradient[n * out + o];
    });
  }
  return input_gradient;
}

/// Mean softmax cross-entropy and its gradient by the logits.
inline double reference_loss(const Doubles& logits, std::span<const std::int32_t> labels, Doubles* gradient) {
  const std::size_t num_examples = labels.size();
  const std::size_t classes = logits.size() / num_examples;
  double loss = 0;
  if (gradient != nullptr) gradient->assign(logits.size(), 0.0);
  for (std::size_t n = 0; n < num_examples; ++n) {
    const double* z = logits.data() + n * classes;
    double sum = 0;
    for (std::size_t j = 0; j < classes; ++j) sum += std::exp(z[j]);
    const auto label = static_cast<std::size_t>(labels[n]);
    loss += (std::log(sum) - z[label]) / static_cast<double>(num_examples);
    for (std::size_t j = 0; gradient != nullptr && j < classes; ++j) {
      (*gradient)[n * classes + j] =
          (std::exp(z[j]) / sum - (j == label ? 1.0 : 0.0)) / static_cast<double>(num_examples);
    }
  }
  return loss;
}

struct ReferenceResult {
  double loss = 0;
  Doubles logits;
  Doubles gradient;  // [flat_elements], padding zero
};

/// A whole net, forward and backward.
inline ReferenceResult reference_net(const NetPlan& plan, const Doubles& parameters, const Doubles& images,
                                     std::span<const std::int32_t> labels) {
  std::vector<Doubles> activations = {images};
  for (const LayerPlan& layer : plan.layers) {
    activations.push_back(reference_forward(layer, plan.layout, parameters, activations.back()));
  }
  ReferenceResult result;
  result.logits = activations.back();
  result.gradient.assign(parameters.size(), 0.0);
  Doubles flowing;
  result.loss = reference_loss(result.logits, labels, &flowing);
  for (std::size_t l = plan.layers.size(); l-- > 0;) {
    flowing = reference_backward(plan.layers[l], plan.layout, parameters, activations[l], activations[l + 1],
                                 std::move(flowing), result.gradient);
  }
  return result;
}

}  // namespace terngrad::test
