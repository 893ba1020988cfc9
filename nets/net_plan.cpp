#include "nets/net_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/errors.h"

namespace terngrad {
namespace {

/// Output size of a window along one axis and the padding that gives it.
struct AxisPlan {
  int output = 0;
  int before = 0;
  int after = 0;
};

AxisPlan plan_axis(const std::string& who, int input, int window, int stride, Padding padding) {
  TERNGRAD_REQUIRE(window >= 1 && stride >= 1, "[", who, "] window and stride must be at least 1, have ", window,
                   " and ", stride);
  if (padding == Padding::kValid) {
    TERNGRAD_REQUIRE(input >= window, "[", who, "] the input must be at least as large as the window, ", window,
                     "; it has ", input);
    return {(input - window) / stride + 1, 0, 0};
  }
  const int output = (input + stride - 1) / stride;
  const int total = std::max((output - 1) * stride + window - input, 0);
  return {output, total / 2, total - total / 2};
}

/// Builds a plan layer by layer.
class Planner {
 public:
  Planner(const NetSpec& spec, const ImageShape& image, int num_classes) {
    plan_.name = spec.name;
    plan_.image = image;
    plan_.num_classes = num_classes;
  }

  void add(const LayerSpec& spec) {
    LayerPlan layer;
    layer.name = spec.name;
    layer.operation = spec.operation;
    layer.input = plan_.layers.empty() ? plan_.image : plan_.layers.back().output;
    std::visit([&](auto& operation) { plan_layer(operation, layer); }, layer.operation);
    require_countable(plan_.name + "/" + layer.name, layer.output.num_elements());
    plan_.layers.push_back(std::move(layer));
  }

  NetPlan finish() && {
    TERNGRAD_REQUIRE(!plan_.layers.empty() && plan_.layers.back().output.num_elements() == plan_.num_classes, "[",
                     plan_.name, "] the last layer must give ", plan_.num_classes, " logits");
    return std::move(plan_);
  }

 private:
  static void require_countable(const std::string& who, std::int64_t num_elements) {
    TERNGRAD_REQUIRE(num_elements >= 1 && num_elements <= std::numeric_limits<std::int32_t>::max(), "[", who,
                     "] must have 1 to 2^31 - 1 elements, has ", num_elements, ": choose another image size");
  }

  int add_tensor(const LayerPlan& layer, const char* suffix, std::vector<std::int64_t> shape, bool is_logits,
                 const TensorPlan& tensor) {
    const std::string name = layer.name + "/" + suffix;
    std::int64_t num_elements = 1;
    for (const std::int64_t dimension : shape) num_elements *= dimension;
    require_countable(plan_.name + "/" + name, num_elements);
    plan_.tensors.push_back(tensor);
    return plan_.layout.add(name, std::move(shape), is_logits);
  }

  template <class Spec>
  void add_weights_and_biases(const Spec& spec, LayerPlan& layer, const std::vector<std::int64_t>& shape,
                              bool is_logits) {
    layer.weights =
        add_tensor(layer, "weights", shape, is_logits, {spec.weights, spec.regularized == Regularized::kYes});
    layer.biases = add_tensor(layer, "biases", {layer.output.channels}, is_logits, {spec.biases, false});
    layer.applies_relu_gradient = spec.activation == Activation::kRelu;
  }

  void plan_window(LayerPlan& layer, int window, int stride, Padding padding, int num_channels) {
    const std::string who = plan_.name + "/" + layer.name;
    const AxisPlan rows = plan_axis(who, layer.input.height, window, stride, padding);
    const AxisPlan columns = plan_axis(who, layer.input.width, window, stride, padding);
    layer.padding = {rows.before, rows.after, columns.before, columns.after};
    layer.output = {rows.output, columns.output, num_channels};
  }

  void plan_layer(const ConvolutionSpec& spec, LayerPlan& layer) {
    plan_window(layer, spec.kernel, spec.stride, spec.padding, spec.num_outputs);
    add_weights_and_biases(spec, layer, {spec.kernel, spec.kernel, layer.input.channels, spec.num_outputs}, false);
  }

  void plan_layer(FullyConnectedSpec& spec, LayerPlan& layer) {
    const bool is_logits = spec.num_outputs == 0;
    if (is_logits) spec.num_outputs = plan_.num_classes;
    layer.output = {1, 1, spec.num_outputs};
    add_weights_and_biases(spec, layer, {layer.input.num_elements(), spec.num_outputs}, is_logits);
  }

  void plan_layer(const MaxPoolSpec& spec, LayerPlan& layer) {
    plan_window(layer, spec.window, spec.stride, spec.padding, layer.input.channels);
    if (!plan_.layers.empty()) std::swap(layer.applies_relu_gradient, plan_.layers.back().applies_relu_gradient);
  }

  void plan_layer(const AveragePoolSpec& spec, LayerPlan& layer) {
    plan_window(layer, spec.window, spec.stride, spec.padding, layer.input.channels);
  }

  void plan_layer(const LrnSpec& spec, LayerPlan& layer) {
    const std::string who = plan_.name + "/" + layer.name;
    TERNGRAD_REQUIRE(spec.radius >= 0, "[", who, "] radius must not be negative, is ", spec.radius);
    TERNGRAD_REQUIRE(std::isnormal(spec.k) && spec.k > 0, "[", who, "] k must be a positive number, is ", spec.k);
    TERNGRAD_REQUIRE(std::isfinite(spec.alpha) && spec.alpha >= 0, "[", who, "] alpha must not be negative, is ",
                     spec.alpha);
    TERNGRAD_REQUIRE(std::isfinite(spec.beta) && spec.beta > 0, "[", who, "] beta must be a positive number, is ",
                     spec.beta);
    layer.output = layer.input;
  }

  NetPlan plan_;
};

}  // namespace

NetPlan plan_net(const NetSpec& spec, const ImageShape& image, int num_classes) {
  constexpr int kMaxSide = 1 << 15;
  const auto is_side = [](int value) { return value >= 1 && value <= kMaxSide; };
  TERNGRAD_REQUIRE(is_side(image.height) && is_side(image.width) && is_side(image.channels), "[", spec.name,
                   "] an image must have 1 to ", kMaxSide, " rows, columns and channels, has ", image.height, " x ",
                   image.width, " x ", image.channels);
  constexpr int kMaxClasses = 1 << 20;
  TERNGRAD_REQUIRE(num_classes >= 1 && num_classes <= kMaxClasses, "[", spec.name, "] there must be 1 to ", kMaxClasses,
                   " classes, have ", num_classes);
  Planner planner(spec, image, num_classes);
  for (const LayerSpec& layer : spec.layers) planner.add(layer);
  return std::move(planner).finish();
}

}  // namespace terngrad
