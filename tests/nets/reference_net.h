// Double-precision reference net for tests of layers and nets. Formulas are plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/random/philox.h"
#include "nets/net_plan.h"
#include "tests/nets/reference_layers.h"

namespace terngrad::test {

/// Uniform floats in [-1, 1) from stream `stream`, exact in both precisions.
inline std::vector<float> random_floats(std::size_t count, std::uint32_t stream) {
  const DrawKey key{.seed = 7, .step = 0, .worker = stream, .purpose = DrawPurpose::kSyntheticData};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 2 * draw_uniform(key, i) - 1;
  return values;
}

inline Doubles widen(std::span<const float> values) { return {values.begin(), values.end()}; }

/// max |a - b| / max |b| (max |a| if b is zero): the error measure of all comparisons.
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

/// Calls visit(input index, weights index, output index) for each product of a layer on one image. Indices are relative
/// to the image, tensor and output image; pools have weights index 0.
template <class Visit>
void for_each_product(const LayerPlan& plan, Visit&& visit) {
  const auto window = [&](int stride, auto&& per_position) {
    for (int y = 0; y < plan.output.height; ++y)
      for (int x = 0; x < plan.output.width; ++x)
        for (int i = 0; i < plan.window.height; ++i)
          for (int j = 0; j < plan.window.width; ++j) {
            const int row = y * stride + i - plan.padding.top;
            const int column = x * stride + j - plan.padding.left;
            if (row < 0 || row >= plan.input.height || column < 0 || column >= plan.input.width) continue;
            per_position((row * plan.input.width + column) * plan.input.channels, i * plan.window.width + j,
                         (y * plan.output.width + x) * plan.output.channels);
          }
  };
  const int in = plan.input.channels;
  const int out = plan.output.channels;
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  if (const auto* conv = std::get_if<ConvolutionSpec>(&plan.operation)) {
    window(conv->stride, [&](int source, int tap, int target) {
      const int in_group = in / conv->groups;
      const int out_group = out / conv->groups;
      for (int c = 0; c < in_group; ++c)
        for (int o = 0; o < out; ++o)
          visit(at(source + o / out_group * in_group + c), at((tap * in_group + c) * out + o), at(target + o));
    });
  } else if (const auto* pool = std::get_if<MaxPoolSpec>(&plan.operation)) {
    window(pool->stride, [&](int source, int, int target) {
      for (int c = 0; c < in; ++c) visit(at(source + c), std::size_t{0}, at(target + c));
    });
  } else if (const auto* average = std::get_if<AveragePoolSpec>(&plan.operation)) {
    window(average->stride, [&](int source, int, int target) {
      for (int c = 0; c < in; ++c) visit(at(source + c), std::size_t{0}, at(target + c));
    });
  } else {
    for (int i = 0; i < static_cast<int>(plan.input.num_elements()); ++i)
      for (int o = 0; o < out; ++o) visit(at(i), at(i * out + o), at(o));
  }
}

inline bool is_max_pool(const LayerPlan& plan) { return std::holds_alternative<MaxPoolSpec>(plan.operation); }

/// Divisor of each output's window.
inline Doubles window_sizes(const LayerPlan& plan) {
  Doubles sizes(static_cast<std::size_t>(plan.output.num_elements()), 0.0);
  if (std::get<AveragePoolSpec>(plan.operation).counts_padding) {
    std::ranges::fill(sizes, static_cast<double>(plan.window.num_elements()));
    return sizes;
  }
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

/// k + alpha * sum of squares over the channel window of each element.
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

/// Chain rule: y[c] depends on x[c] directly, and on all x of its window through s[c].
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

/// Output of a layer that processes images independently.
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
    for (std::size_t o = 0; o < out && plan.biases >= 0; ++o) {
      const double* biases = parameters.data() + layout.segment(plan.biases).offset;
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

/// Input gradient; adds the gradients of the layer's tensors to `gradient`.
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
    double* biases_gradient = plan.biases < 0 ? nullptr : gradient.data() + layout.segment(plan.biases).offset;
    for (std::size_t o = 0; o < out; ++o) {
      if (has_relu(plan) && output[n * out + o] <= 0) output_gradient[n * out + o] = 0;
      if (biases_gradient != nullptr)
        biases_gradient[o % static_cast<std::size_t>(plan.output.channels)] += output_gradient[n * out + o];
    }
    for_each_product(plan, [&](std::size_t i, std::size_t w, std::size_t o) {
      weights_gradient[w] += input[n * in + i] * output_gradient[n * out + o];
      input_gradient[n * in + i] += weights[w] * output_gradient[n * out + o];
    });
  }
  return input_gradient;
}

/// Mean softmax cross-entropy with label smoothing, and `weight` times its gradient with respect to the logits.
inline double reference_loss(const Doubles& logits, std::span<const std::int32_t> labels, Doubles* gradient,
                             double smoothing = 0, double weight = 1) {
  const std::size_t num_examples = labels.size();
  const std::size_t classes = logits.size() / num_examples;
  double loss = 0;
  if (gradient != nullptr) gradient->assign(logits.size(), 0.0);
  for (std::size_t n = 0; n < num_examples; ++n) {
    const double* z = logits.data() + n * classes;
    double sum = 0;
    for (std::size_t j = 0; j < classes; ++j) sum += std::exp(z[j]);
    const auto label = static_cast<std::size_t>(labels[n]);
    for (std::size_t j = 0; j < classes; ++j) {
      const double target = (j == label ? 1 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
      loss += target * (std::log(sum) - z[j]) / static_cast<double>(num_examples);
      if (gradient == nullptr) continue;
      (*gradient)[n * classes + j] = weight * (std::exp(z[j]) / sum - target) / static_cast<double>(num_examples);
    }
  }
  return loss;
}

struct ReferenceResult {
  double loss = 0;            // main loss
  double auxiliary_loss = 0;  // weighted sum of auxiliary losses
  Doubles logits;
  Doubles gradient;  // [flat_elements], padding zero
  Doubles state;     // after the pass
};

/// Reference net: forward and backward.
class ReferenceNet {
 public:
  ReferenceNet(const NetPlan& plan, const Doubles& parameters, const ReferencePass& pass)
      : plan_(plan), parameters_(parameters), pass_(pass) {
    result_.gradient.assign(parameters.size(), 0.0);
    result_.state = pass.state;
  }

  ReferenceResult run(const Doubles& images, std::span<const std::int32_t> labels) && {
    images_ = images;
    first_draws_ = first_dropout_draws(plan_, static_cast<int>(labels.size()));
    for (std::size_t l = 0; l < plan_.layers.size(); ++l) outputs_.push_back(forward(l, labels.size()));
    result_.logits = outputs_.back();
    for (const Doubles& output : outputs_) gradients_.emplace_back(output.size(), 0.0);
    const auto smoothing = static_cast<double>(plan_.label_smoothing);
    result_.loss = reference_loss(result_.logits, labels, &gradients_.back(), smoothing);
    for (const AuxiliaryLossPlan& auxiliary : plan_.auxiliary_losses) {
      const auto l = static_cast<std::size_t>(auxiliary.layer);
      const auto weight = static_cast<double>(auxiliary.weight);
      result_.auxiliary_loss += weight * reference_loss(outputs_[l], labels, &gradients_[l], smoothing, weight);
    }
    if (!pass_.is_training) return std::move(result_);
    for (std::size_t l = plan_.layers.size(); l-- > 0;) backward(l, labels.size());
    return std::move(result_);
  }

 private:
  const Doubles& input(std::size_t l, std::size_t i) const {
    const int producer = plan_.layers[l].inputs[i];
    return producer == kImageIndex ? images_ : outputs_[static_cast<std::size_t>(producer)];
  }

  void add_gradient(std::size_t l, std::size_t i, const Doubles& gradient) {
    const int producer = plan_.layers[l].inputs[i];
    if (producer == kImageIndex) return;
    Doubles& sum = gradients_[static_cast<std::size_t>(producer)];
    for (std::size_t e = 0; e < gradient.size(); ++e) sum[e] += gradient[e];
  }

  Doubles forward(std::size_t l, std::size_t num_examples) {
    const LayerPlan& layer = plan_.layers[l];
    if (std::holds_alternative<ConcatenationSpec>(layer.operation)) {
      Doubles output(num_examples * static_cast<std::size_t>(layer.output.num_elements()));
      for_each_copy(layer, num_examples, [&](std::size_t i, std::size_t source, std::size_t target) {
        output[target] = input(l, i)[source];
      });
      return output;
    }
    if (std::holds_alternative<AddSpec>(layer.operation)) return summed(l);
    if (std::holds_alternative<PadChannelsSpec>(layer.operation)) {
      Doubles output(num_examples * static_cast<std::size_t>(layer.output.num_elements()), 0.0);
      for_each_kept(layer, num_examples,
                    [&](std::size_t source, std::size_t target) { output[target] = input(l, 0)[source]; });
      return output;
    }
    if (std::holds_alternative<DropoutSpec>(layer.operation)) return dropped(l, input(l, 0));
    if (std::holds_alternative<BatchNormSpec>(layer.operation)) {
      const auto statistics = batch_norm_statistics(layer, plan_, input(l, 0), pass_, result_.state);
      return batch_norm_forward(layer, plan_.layout, parameters_, input(l, 0), statistics);
    }
    return reference_forward(layer, plan_.layout, parameters_, input(l, 0));
  }

  void backward(std::size_t l, std::size_t num_examples) {
    const LayerPlan& layer = plan_.layers[l];
    if (std::holds_alternative<ConcatenationSpec>(layer.operation)) {
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        Doubles input_gradient(input(l, i).size());
        for_each_copy(layer, num_examples, [&](std::size_t from, std::size_t source, std::size_t target) {
          if (from == i) input_gradient[source] = gradients_[l][target];
        });
        add_gradient(l, i, input_gradient);
      }
    } else if (std::holds_alternative<AddSpec>(layer.operation)) {
      Doubles gradient = gradients_[l];
      for (std::size_t e = 0; is_rectified_sum(layer) && e < gradient.size(); ++e) {
        if (outputs_[l][e] <= 0) gradient[e] = 0;
      }
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) add_gradient(l, i, gradient);
    } else if (std::holds_alternative<PadChannelsSpec>(layer.operation)) {
      Doubles input_gradient(input(l, 0).size());
      for_each_kept(layer, num_examples,
                    [&](std::size_t source, std::size_t target) { input_gradient[source] = gradients_[l][target]; });
      add_gradient(l, 0, input_gradient);
    } else if (std::holds_alternative<DropoutSpec>(layer.operation)) {
      add_gradient(l, 0, dropped(l, gradients_[l]));
    } else if (std::holds_alternative<BatchNormSpec>(layer.operation)) {
      add_gradient(l, 0,
                   batch_norm_backward(layer, plan_.layout, parameters_, input(l, 0), outputs_[l], gradients_[l],
                                       result_.gradient));
    } else {
      add_gradient(l, 0,
                   reference_backward(layer, plan_.layout, parameters_, input(l, 0), outputs_[l], gradients_[l],
                                      result_.gradient));
    }
  }

  Doubles summed(std::size_t l) const {
    Doubles sum(input(l, 0).size(), 0.0);
    for (std::size_t i = 0; i < plan_.layers[l].inputs.size(); ++i) {
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += input(l, i)[e];
    }
    for (std::size_t e = 0; is_rectified_sum(plan_.layers[l]) && e < sum.size(); ++e) sum[e] = std::max(sum[e], 0.0);
    return sum;
  }

  Doubles dropped(std::size_t l, Doubles values) const {
    const Doubles factors = dropout_factors(plan_.layers[l], pass_, first_draws_[l], values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
    return values;
  }

  const NetPlan& plan_;
  const Doubles& parameters_;
  const ReferencePass& pass_;
  ReferenceResult result_;
  Doubles images_;
  std::vector<std::int64_t> first_draws_;
  std::vector<Doubles> outputs_;
  std::vector<Doubles> gradients_;
};

inline ReferenceResult reference_net(const NetPlan& plan, const Doubles& parameters, const Doubles& images,
                                     std::span<const std::int32_t> labels, const ReferencePass& pass = {}) {
  return ReferenceNet(plan, parameters, pass).run(images, labels);
}

/// Initial state of a net.
inline Doubles initial_state(const NetPlan& plan) {
  Doubles state(static_cast<std::size_t>(plan.state_layout.flat_elements()), 0.0);
  for (int index = 0; index < plan.state_layout.num_segments(); ++index) {
    const Segment& segment = plan.state_layout.segment(index);
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      state[static_cast<std::size_t>(segment.offset + i)] =
          static_cast<double>(plan.state_values[static_cast<std::size_t>(index)]);
    }
  }
  return state;
}

/// Largest difference between the reference's gradient and central differences of its loss, relative to the tensor's
/// largest element. Checks some elements of each tensor.
inline double central_difference_error(const NetPlan& plan, const Doubles& parameters, const Doubles& images,
                                       std::span<const std::int32_t> labels, const ReferencePass& pass = {}) {
  constexpr double kStep = 1e-6;
  constexpr int kProbes = 8;
  const Doubles gradient = reference_net(plan, parameters, images, labels, pass).gradient;
  double worst = 0;
  for (const Segment& segment : plan.layout.segments()) {
    double largest = 1e-3;  // smaller differences of losses are lost in rounding
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      largest = std::max(largest, std::abs(gradient[static_cast<std::size_t>(segment.offset + i)]));
    }
    for (int probe = 0; probe < kProbes; ++probe) {
      const auto index = static_cast<std::size_t>(segment.offset + segment.num_elements * probe / kProbes);
      Doubles moved = parameters;
      moved[index] += kStep;
      const ReferenceResult above = reference_net(plan, moved, images, labels, pass);
      moved[index] -= 2 * kStep;
      const ReferenceResult below = reference_net(plan, moved, images, labels, pass);
      const double difference = above.loss - below.loss + (above.auxiliary_loss - below.auxiliary_loss);
      worst = std::max(worst, std::abs(difference / (2 * kStep) - gradient[index]) / largest);
    }
  }
  return worst;
}

}  // namespace terngrad::test
