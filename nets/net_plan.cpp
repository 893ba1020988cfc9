#include "nets/net_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Output size of a window along one axis and the padding that gives it.
struct AxisPlan {
  int output = 0;
  int before = 0;
  int after = 0;
};

bool takes_many_inputs(const LayerOperation& operation) {
  return std::holds_alternative<ConcatenationSpec>(operation) || std::holds_alternative<AddSpec>(operation);
}

bool depends_on_fans(const Initializer& initializer) {
  using Kind = Initializer::Kind;
  return initializer.kind == Kind::kXavierUniform || initializer.kind == Kind::kScaledNormal ||
         initializer.kind == Kind::kFanInUniform;
}

/// Replaces initializers that depend on the fans of weights [..., in, out] by concrete ones.
Initializer with_fans(const Initializer& initializer, std::span<const std::int64_t> shape) {
  double window = 1;
  for (const std::int64_t side : shape.first(shape.size() - 2)) window *= static_cast<double>(side);
  const double fan_in = window * static_cast<double>(shape[shape.size() - 2]);
  const double fan_out = window * static_cast<double>(shape.back());
  if (initializer.kind == Initializer::Kind::kXavierUniform) {
    return Initializer::uniform(static_cast<float>(std::sqrt(6 / (fan_in + fan_out))));
  }
  if (initializer.kind == Initializer::Kind::kScaledNormal) {
    return Initializer::truncated_normal(static_cast<float>(std::sqrt(1.3 * double{initializer.value} / fan_in)));
  }
  if (initializer.kind == Initializer::Kind::kFanInUniform) {
    return Initializer::uniform(static_cast<float>(std::sqrt(3 / fan_in)));
  }
  return initializer;
}

AxisPlan plan_axis(const std::string& who, int input, int window, int stride, Padding padding) {
  TERNGRAD_REQUIRE(window >= 1 && stride >= 1, "[", who, "] window and stride must be at least 1, have ", window,
                   " and ", stride);
  if (padding == Padding::kValid) {
    TERNGRAD_REQUIRE(input >= window, "[", who, "] the input must be at least as large as the window, ", window,
                     "; it has ", input);
    return {(input - window) / stride + 1, 0, 0};
  }
  if (padding == Padding::kTwo) {
    constexpr int kPadded = 2;
    TERNGRAD_REQUIRE(input + 2 * kPadded >= window, "[", who, "] the padded input must be at least as large as the ",
                     "window, ", window, "; the input has ", input);
    const int output = (input + 2 * kPadded - window) / stride + 1;
    return {output, kPadded, std::max((output - 1) * stride + window - input - kPadded, 0)};
  }
  const int output = (input + stride - 1) / stride;
  const int total = std::max((output - 1) * stride + window - input, 0);
  const int before = padding == Padding::kHalf ? (window - 1) / 2 : total / 2;
  return {output, before, std::max(total - before, 0)};
}

/// Builds a plan layer by layer.
class Planner {
 public:
  Planner(const NetSpec& spec, const ImageShape& image, int num_classes) : auxiliary_losses_(spec.auxiliary_losses) {
    plan_.name = spec.name;
    plan_.image = image;
    plan_.num_classes = num_classes;
    plan_.label_smoothing = spec.label_smoothing;
  }

  void add(const LayerSpec& spec) {
    TERNGRAD_REQUIRE(!spec.name.empty() && spec.name != kImageInput && find(spec.name) == kNotFound, "[", plan_.name,
                     "] each layer must have its own name, other than '", kImageInput, "'; layer ", plan_.layers.size(),
                     " is called '", spec.name, "'");
    LayerPlan layer;
    layer.name = spec.name;
    layer.operation = spec.operation;
    connect(spec, layer);
    std::visit([&](auto& operation) { plan_layer(operation, layer); }, layer.operation);
    require_countable(who(layer), layer.output.num_elements());
    layer.needs_gradient |= !layer.tensors.empty();
    plan_.layers.push_back(std::move(layer));
  }

  NetPlan finish() && {
    TERNGRAD_REQUIRE(!plan_.layers.empty() && plan_.layers.back().output.num_elements() == plan_.num_classes, "[",
                     plan_.name, "] the last layer must give ", plan_.num_classes, " logits");
    for (const AuxiliaryLoss& loss : auxiliary_losses_) plan_auxiliary_loss(loss);
    for (const LayerPlan& layer : plan_.layers) {
      TERNGRAD_REQUIRE(layer.num_consumers > 0 || &layer == &plan_.layers.back() || is_auxiliary(layer.name), "[",
                       who(layer), "] no layer takes this output, and it is not the last");
    }
    mark_training_only();
    for (LayerPlan& layer : plan_.layers) move_relu_gradient(layer);
    return std::move(plan_);
  }

 private:
  static constexpr int kNotFound = kImageIndex - 1;

  std::string who(const LayerPlan& layer) const { return plan_.name + "/" + layer.name; }

  static void require_countable(const std::string& who, std::int64_t num_elements) {
    TERNGRAD_REQUIRE(num_elements >= 1 && num_elements <= std::numeric_limits<std::int32_t>::max(), "[", who,
                     "] must have 1 to 2^31 - 1 elements, has ", num_elements, ": choose another image size");
  }

  int find(const std::string& name) const {
    if (name == kImageInput) return kImageIndex;
    const auto layer = std::ranges::find(plan_.layers, name, &LayerPlan::name);
    return layer == plan_.layers.end() ? kNotFound : static_cast<int>(layer - plan_.layers.begin());
  }

  bool is_auxiliary(const std::string& name) const {
    return std::ranges::find(auxiliary_losses_, name, &AuxiliaryLoss::layer) != auxiliary_losses_.end();
  }

  void plan_auxiliary_loss(const AuxiliaryLoss& loss) {
    const int index = find(loss.layer);
    TERNGRAD_REQUIRE(index >= 0 && index + 1 < static_cast<int>(plan_.layers.size()), "[", plan_.name,
                     "] an auxiliary loss must name a layer before the last, names '", loss.layer, "'");
    const LayerPlan& layer = plan_.layers[static_cast<std::size_t>(index)];
    TERNGRAD_REQUIRE(layer.num_consumers == 0 && layer.output.num_elements() == plan_.num_classes, "[", who(layer),
                     "] must give ", plan_.num_classes, " logits of an auxiliary loss, and to no layer; gives ",
                     layer.output.num_elements(), " to ", layer.num_consumers);
    TERNGRAD_REQUIRE(std::isfinite(loss.weight) && loss.weight > 0, "[", who(layer),
                     "] the weight of an auxiliary loss must be a positive number, is ", loss.weight);
    for (const AuxiliaryLossPlan& other : plan_.auxiliary_losses) {
      TERNGRAD_REQUIRE(other.layer != index, "[", who(layer), "] has two auxiliary losses");
    }
    plan_.auxiliary_losses.push_back({index, loss.weight});
  }

  void mark_training_only() {
    for (LayerPlan& layer : plan_.layers) layer.is_training_only = &layer != &plan_.layers.back();
    for (std::size_t l = plan_.layers.size(); l-- > 0;) {
      if (plan_.layers[l].is_training_only) continue;
      for (const int input : plan_.layers[l].inputs) {
        if (input != kImageIndex) plan_.layers[static_cast<std::size_t>(input)].is_training_only = false;
      }
    }
  }

  void connect(const LayerSpec& spec, LayerPlan& layer) {
    if (spec.inputs.empty()) layer.inputs = {static_cast<int>(plan_.layers.size()) - 1};
    for (const std::string& name : spec.inputs) {
      layer.inputs.push_back(find(name));
      TERNGRAD_REQUIRE(layer.inputs.back() != kNotFound, "[", who(layer), "] takes from '", name,
                       "', which is none of the layers listed before it, nor '", kImageInput, "'");
    }
    TERNGRAD_REQUIRE(layer.inputs.size() == 1 || takes_many_inputs(spec.operation), "[", who(layer),
                     "] must take one input, takes ", layer.inputs.size(), ": only concatenations and sums take more");
    for (const int index : layer.inputs) {
      if (index == kImageIndex) {
        layer.input_shapes.push_back(plan_.image);
        continue;
      }
      LayerPlan& producer = plan_.layers[static_cast<std::size_t>(index)];
      layer.input_shapes.push_back(producer.output);
      layer.needs_gradient |= producer.needs_gradient;
      ++producer.num_consumers;
    }
    layer.input = layer.input_shapes.front();
  }

  int add_tensor(LayerPlan& layer, const char* suffix, std::vector<std::int64_t> shape, bool is_logits,
                 const TensorPlan& tensor) {
    const std::string name = layer.name + "/" + suffix;
    std::int64_t num_elements = 1;
    for (const std::int64_t dimension : shape) num_elements *= dimension;
    require_countable(plan_.name + "/" + name, num_elements);
    TERNGRAD_REQUIRE(shape.size() >= 2 || !depends_on_fans(tensor.initializer), "[", plan_.name, "/", name,
                     "] must have a constant, a standard deviation or a limit: it has no fans");
    plan_.tensors.push_back(
        {shape.size() >= 2 ? with_fans(tensor.initializer, shape) : tensor.initializer, tensor.is_regularized});
    layer.tensors.push_back(plan_.layout.add(name, std::move(shape), is_logits));
    return layer.tensors.back();
  }

  int add_state(const LayerPlan& layer, const char* suffix, int num_elements, float value) {
    plan_.state_values.push_back(value);
    return plan_.state_layout.add(layer.name + "/" + suffix, {num_elements});
  }

  void plan_window(LayerPlan& layer, const WindowSize& window, int stride, Padding padding, int num_channels) {
    const AxisPlan rows = plan_axis(who(layer), layer.input.height, window.height, stride, padding);
    const AxisPlan columns = plan_axis(who(layer), layer.input.width, window.width, stride, padding);
    layer.window = window;
    layer.padding = {rows.before, rows.after, columns.before, columns.after};
    layer.output = {rows.output, columns.output, num_channels};
  }

  void plan_layer(const ConvolutionSpec& spec, LayerPlan& layer) {
    const int channels = layer.input.channels;
    const bool is_whole = spec.kernel == WindowSize{};
    TERNGRAD_REQUIRE(!is_whole || spec.stride == 1, "[", who(layer),
                     "] the stride must be 1, as the kernel is as large as the input; it is ", spec.stride);
    const WindowSize kernel = is_whole ? WindowSize(layer.input.height, layer.input.width) : spec.kernel;
    TERNGRAD_REQUIRE(spec.groups >= 1 && channels % spec.groups == 0 && spec.num_outputs % spec.groups == 0, "[",
                     who(layer), "] groups must divide the ", channels, " channels and the ", spec.num_outputs,
                     " outputs, there are ", spec.groups);
    plan_window(layer, kernel, spec.stride, is_whole ? Padding::kValid : spec.padding, spec.num_outputs);
    layer.weights =
        add_tensor(layer, "weights", {kernel.height, kernel.width, channels / spec.groups, spec.num_outputs}, false,
                   {spec.weights, spec.regularized == Regularized::kYes});
    if (spec.biases) layer.biases = add_tensor(layer, "biases", {spec.num_outputs}, false, {*spec.biases, false});
    layer.applies_relu_gradient = spec.activation == Activation::kRelu;
  }

  void plan_layer(FullyConnectedSpec& spec, LayerPlan& layer) {
    const bool is_logits = spec.num_outputs == 0 && !is_auxiliary(layer.name);
    if (spec.num_outputs == 0) spec.num_outputs = plan_.num_classes;
    layer.output = {1, 1, spec.num_outputs};
    layer.weights = add_tensor(layer, "weights", {layer.input.num_elements(), spec.num_outputs}, is_logits,
                               {spec.weights, spec.regularized == Regularized::kYes});
    layer.biases = add_tensor(layer, "biases", {spec.num_outputs}, is_logits, {spec.biases, false});
    layer.applies_relu_gradient = spec.activation == Activation::kRelu;
  }

  /// A window of a pool must reach into the image, which kTwo does not ensure for small ones.
  void require_pool_padding(const LayerPlan& layer, Padding padding) const {
    TERNGRAD_REQUIRE(padding != Padding::kTwo, "[", who(layer), "] the padding kTwo is for convolutions");
  }

  void plan_layer(const MaxPoolSpec& spec, LayerPlan& layer) {
    require_pool_padding(layer, spec.padding);
    plan_window(layer, spec.window, spec.stride, spec.padding, layer.input.channels);
  }

  void plan_layer(const AveragePoolSpec& spec, LayerPlan& layer) {
    require_pool_padding(layer, spec.padding);
    const bool is_whole = spec.window == 0;
    TERNGRAD_REQUIRE(!is_whole || spec.stride == 1, "[", who(layer),
                     "] the stride must be 1, as the window is the whole image; it is ", spec.stride);
    const WindowSize window = is_whole ? WindowSize(layer.input.height, layer.input.width) : WindowSize(spec.window);
    plan_window(layer, window, spec.stride, is_whole ? Padding::kValid : spec.padding, layer.input.channels);
  }

  void plan_layer(const LrnSpec& spec, LayerPlan& layer) {
    TERNGRAD_REQUIRE(spec.radius >= 0, "[", who(layer), "] radius must not be negative, is ", spec.radius);
    TERNGRAD_REQUIRE(std::isnormal(spec.k) && spec.k > 0, "[", who(layer), "] k must be a positive number, is ",
                     spec.k);
    TERNGRAD_REQUIRE(std::isfinite(spec.alpha) && spec.alpha >= 0, "[", who(layer), "] alpha must not be negative, is ",
                     spec.alpha);
    TERNGRAD_REQUIRE(std::isfinite(spec.beta) && spec.beta > 0, "[", who(layer),
                     "] beta must be a positive number, is ", spec.beta);
    TERNGRAD_REQUIRE(std::isfinite(std::pow(spec.k, -spec.beta - 1.0f)), "[", who(layer),
                     "] k^(-beta - 1) must be finite, k is ", spec.k, " and beta ", spec.beta);
    layer.output = layer.input;
  }

  void plan_layer(const ConcatenationSpec&, LayerPlan& layer) {
    std::int64_t channels = 0;
    for (const ImageShape& shape : layer.input_shapes) {
      TERNGRAD_REQUIRE(shape.height == layer.input.height && shape.width == layer.input.width, "[", who(layer),
                       "] the inputs must have equal heights and widths, have ", layer.input.height, " x ",
                       layer.input.width, " and ", shape.height, " x ", shape.width);
      channels += shape.channels;
    }
    require_countable(who(layer), channels);
    layer.output = {layer.input.height, layer.input.width, static_cast<int>(channels)};
  }

  void plan_layer(const AddSpec&, LayerPlan& layer) {
    TERNGRAD_REQUIRE(layer.inputs.size() >= 2, "[", who(layer), "] must take two inputs or more");
    for (const ImageShape& shape : layer.input_shapes) {
      TERNGRAD_REQUIRE(shape == layer.input, "[", who(layer), "] the inputs must have equal shapes, have ",
                       layer.input.height, " x ", layer.input.width, " x ", layer.input.channels, " and ", shape.height,
                       " x ", shape.width, " x ", shape.channels);
    }
    layer.output = layer.input;
  }

  void plan_layer(const PadChannelsSpec& spec, LayerPlan& layer) {
    TERNGRAD_REQUIRE(spec.num_outputs >= layer.input.channels, "[", who(layer), "] must have at least the ",
                     layer.input.channels, " channels of its input, has ", spec.num_outputs);
    layer.output = {layer.input.height, layer.input.width, spec.num_outputs};
  }

  void plan_layer(const DropoutSpec& spec, LayerPlan& layer) {
    TERNGRAD_REQUIRE(spec.keep_prob > 0 && spec.keep_prob <= 1, "[", who(layer), "] keep_prob must be in (0, 1], is ",
                     spec.keep_prob);
    layer.output = layer.input;
  }

  void plan_layer(const BatchNormSpec& spec, LayerPlan& layer) {
    TERNGRAD_REQUIRE(spec.decay >= 0 && spec.decay < 1 && spec.epsilon > 0 && std::isfinite(spec.epsilon), "[",
                     who(layer), "] decay must be in [0, 1) and epsilon above 0, are ", spec.decay, " and ",
                     spec.epsilon);
    const int channels = layer.input.channels;
    layer.output = layer.input;
    layer.beta = add_tensor(layer, "beta", {channels}, false, {spec.beta, false});
    if (spec.gamma) layer.gamma = add_tensor(layer, "gamma", {channels}, false, {*spec.gamma, false});
    layer.moving_mean = add_state(layer, "moving_mean", channels, 0);
    layer.moving_variance = add_state(layer, "moving_variance", channels, 1);
    layer.moving_weight = add_state(layer, "moving_weight", 1, 0);
  }

  /// See LayerPlan::applies_relu_gradient.
  void move_relu_gradient(LayerPlan& layer) {
    if (!std::holds_alternative<MaxPoolSpec>(layer.operation) || layer.inputs[0] == kImageIndex) return;
    LayerPlan& producer = plan_.layers[static_cast<std::size_t>(layer.inputs[0])];
    const bool has_weights = std::holds_alternative<ConvolutionSpec>(producer.operation) ||
                             std::holds_alternative<FullyConnectedSpec>(producer.operation);
    if (has_weights && producer.num_consumers == 1) {
      std::swap(layer.applies_relu_gradient, producer.applies_relu_gradient);
    }
  }

  NetPlan plan_;
  std::vector<AuxiliaryLoss> auxiliary_losses_;
};

}  // namespace

NetPlan plan_net(const NetSpec& spec, const ImageShape& image, int num_classes) {
  constexpr int kMaxSide = 1 << 15;
  const auto is_side = [](int value) { return value >= 1 && value <= kMaxSide; };
  TERNGRAD_REQUIRE(is_side(image.height) && is_side(image.width) && is_side(image.channels), "[", spec.name,
                   "] an image must have 1 to ", kMaxSide, " rows, columns and channels, has ", image.height, " x ",
                   image.width, " x ", image.channels);
  TERNGRAD_REQUIRE(image.height >= spec.smallest_side && image.width >= spec.smallest_side, "[", spec.name,
                   "] an image must have at least ", spec.smallest_side, " rows and columns, has ", image.height, " x ",
                   image.width);
  TERNGRAD_REQUIRE(spec.label_smoothing >= 0 && spec.label_smoothing < 1, "[", spec.name,
                   "] label_smoothing must be in [0, 1), is ", spec.label_smoothing);
  constexpr int kMaxClasses = 1 << 20;
  TERNGRAD_REQUIRE(num_classes >= 1 && num_classes <= kMaxClasses, "[", spec.name, "] there must be 1 to ", kMaxClasses,
                   " classes, have ", num_classes);
  Planner planner(spec, image, num_classes);
  for (const LayerSpec& layer : spec.layers) planner.add(layer);
  return std::move(planner).finish();
}

std::vector<std::int64_t> first_dropout_draws(const NetPlan& plan, int num_examples) {
  constexpr std::int64_t kDrawsPerBlock = 4;
  std::vector<std::int64_t> first;
  std::int64_t next = 0;
  for (const LayerPlan& layer : plan.layers) {
    first.push_back(next);
    if (!std::holds_alternative<DropoutSpec>(layer.operation)) continue;
    const std::int64_t elements = num_examples * layer.output.num_elements();
    next += (elements + kDrawsPerBlock - 1) / kDrawsPerBlock * kDrawsPerBlock;
  }
  return first;
}

}  // namespace terngrad
