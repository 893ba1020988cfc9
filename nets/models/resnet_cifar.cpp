#include "nets/models/resnet_cifar.h"

#include <string>
#include <utility>

namespace terngrad {
namespace {

ConvolutionSpec convolution_3x3(int num_outputs, int stride) {
  return {.num_outputs = num_outputs,
          .kernel = 3,
          .stride = stride,
          .padding = Padding::kHalf,
          .weights = Initializer::scaled_normal(2),
          .biases = std::nullopt};
}

BatchNormSpec batch_norm(Activation activation) {
  return {.decay = 0.9f, .epsilon = 1e-5f, .activation = activation, .gamma = Initializer::constant(1)};
}

/// Adds the layers of a unit on top of the last one.
void add_unit(NetSpec& net, const std::string& name, int num_channels, bool is_first_of_later_stage) {
  const std::string input = net.layers.back().name;
  const auto add = [&](const char* suffix, const LayerOperation& operation, std::vector<std::string> inputs = {}) {
    net.layers.push_back({name + suffix, operation, std::move(inputs)});
  };
  add("_conv1", convolution_3x3(num_channels, is_first_of_later_stage ? 2 : 1));
  add("_norm1", batch_norm(Activation::kRelu));
  add("_conv2", convolution_3x3(num_channels, 1));
  add("_norm2", batch_norm(Activation::kNone));
  std::string shortcut = input;
  if (is_first_of_later_stage) {
    add("_every_second", MaxPoolSpec{.window = 1, .stride = 2, .padding = Padding::kValid}, {input});
    add("_shortcut", PadChannelsSpec{.num_outputs = num_channels});
    shortcut = name + "_shortcut";
  }
  add("_sum", AddSpec{Activation::kRelu}, {name + "_norm2", shortcut});
}

}  // namespace

NetSpec resnet_cifar(const char* name, int units_per_stage) {
  NetSpec net{name, {{"conv1", convolution_3x3(16, 1)}, {"norm1", batch_norm(Activation::kRelu)}}};
  for (int stage = 1; stage <= 3; ++stage) {
    for (int unit = 1; unit <= units_per_stage; ++unit) {
      add_unit(net, "stage" + std::to_string(stage) + "_unit" + std::to_string(unit), 8 << stage,
               stage > 1 && unit == 1);
    }
  }
  net.layers.push_back({"average", AveragePoolSpec{}});
  net.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::scaled_normal(2)}});
  return net;
}

}  // namespace terngrad
