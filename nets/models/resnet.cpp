#include "nets/models/resnet.h"

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace terngrad {
namespace {

/// Parameters of a net of this family.
struct ResnetForm {
  const char* name = nullptr;
  std::array<int, 4> units_of_stages = {};
  bool has_bottlenecks = false;
  bool takes_small_images = false;
  float decay = 0;
};

class ResnetBuilder {
 public:
  explicit ResnetBuilder(const ResnetForm& form) : form_(form), net_{form.name, {}} {}

  NetSpec build() && {
    add_stem();
    for (int stage = 1; stage <= 4; ++stage) {
      for (int unit = 1; unit <= form_.units_of_stages[static_cast<std::size_t>(stage - 1)]; ++unit) {
        add_unit("stage" + std::to_string(stage) + "_unit" + std::to_string(unit), 32 << stage,
                 stage > 1 && unit == 1 ? 2 : 1);
      }
    }
    net_.layers.push_back({"average", AveragePoolSpec{}});
    net_.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::scaled_normal(2)}});
    return std::move(net_);
  }

 private:
  void add_stem() {
    channels_ = 64;
    add_convolution("conv1", channels_, form_.takes_small_images ? 3 : 7, form_.takes_small_images ? 1 : 2);
    add_norm("norm1", Activation::kRelu);
    if (form_.takes_small_images) return;
    net_.layers.push_back({"pool1", MaxPoolSpec{.window = 3, .stride = 2, .padding = Padding::kHalf}});
  }

  /// Adds a unit on top of the last layer.
  void add_unit(const std::string& name, int width, int stride) {
    const std::string input = net_.layers.back().name;
    const int outputs = form_.has_bottlenecks ? 4 * width : width;
    if (form_.has_bottlenecks) {
      add_convolution(name + "_conv1", width, 1, 1);
      add_norm(name + "_norm1", Activation::kRelu);
      add_convolution(name + "_conv2", width, 3, stride);
      add_norm(name + "_norm2", Activation::kRelu);
      add_convolution(name + "_conv3", outputs, 1, 1);
      add_norm(name + "_norm3", Activation::kNone);
    } else {
      add_convolution(name + "_conv1", outputs, 3, stride);
      add_norm(name + "_norm1", Activation::kRelu);
      add_convolution(name + "_conv2", outputs, 3, 1);
      add_norm(name + "_norm2", Activation::kNone);
    }
    const std::string branch = net_.layers.back().name;
    std::string shortcut = input;
    if (stride != 1 || outputs != channels_) {
      add_convolution(name + "_shortcut", outputs, 1, stride, {input});
      shortcut = name + "_shortcut_norm";
      add_norm(shortcut, Activation::kNone);
    }
    net_.layers.push_back({name + "_sum", AddSpec{Activation::kRelu}, {branch, shortcut}});
    channels_ = outputs;
  }

  void add_convolution(const std::string& name, int num_outputs, int kernel, int stride,
                       std::vector<std::string> inputs = {}) {
    const ConvolutionSpec convolution{.num_outputs = num_outputs,
                                      .kernel = kernel,
                                      .stride = stride,
                                      .padding = Padding::kHalf,
                                      .weights = Initializer::scaled_normal(2),
                                      .biases = std::nullopt};
    net_.layers.push_back({name, convolution, std::move(inputs)});
  }

  void add_norm(const std::string& name, Activation activation) {
    net_.layers.push_back(
        {name,
         BatchNormSpec{
             .decay = form_.decay, .epsilon = 1e-5f, .activation = activation, .gamma = Initializer::constant(1)}});
  }

  ResnetForm form_;
  NetSpec net_;
  int channels_ = 0;  // channels of the last layer
};

}  // namespace

NetSpec resnet_18() {
  return ResnetBuilder({.name = "resnet_18", .units_of_stages = {2, 2, 2, 2}, .decay = 0.997f}).build();
}

NetSpec resnet_50() {
  return ResnetBuilder({.name = "resnet_50", .units_of_stages = {3, 4, 6, 3}, .has_bottlenecks = true, .decay = 0.997f})
      .build();
}

NetSpec resnet_18_cifar() {
  return ResnetBuilder(
             {.name = "resnet_18_cifar", .units_of_stages = {2, 2, 2, 2}, .takes_small_images = true, .decay = 0.9f})
      .build();
}

}  // namespace terngrad
