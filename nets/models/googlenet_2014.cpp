#include "nets/models/googlenet_2014.h"

#include <string>
#include <utility>
#include <vector>

#include "nets/models/mixed_block.h"

namespace terngrad {
namespace {

class Googlenet2014Builder {
 public:
  explicit Googlenet2014Builder(float keep_prob) : keep_prob_(keep_prob) {}

  NetSpec build() && {
    // Alpha multiplies the sum over the window; Caffe's 0.0001 multiplies its mean.
    const LrnSpec lrn{.radius = 2, .k = 1, .alpha = 2e-5f, .beta = 0.75f};
    add_convolution("conv1", 64, 7, 2);
    add_pool("pool1");
    net_.layers.push_back({"lrn1", lrn});
    add_convolution("conv2_1x1", 64, 1);
    add_convolution("conv2_3x3", 192, 3);
    net_.layers.push_back({"lrn2", lrn});
    add_pool("pool2");
    for (const MixedBlock& block : kMixed3) add_block(block);
    add_pool("pool3");
    for (const MixedBlock& block : kMixed4) {
      add_block(block);
      if (trunk_ == "mixed_4b") add_classifier("auxiliary1");
      if (trunk_ == "mixed_4e") add_classifier("auxiliary2");
    }
    add_pool("pool4");
    for (const MixedBlock& block : kMixed5) add_block(block);
    net_.layers.push_back({"average", AveragePoolSpec{}});
    net_.layers.push_back({"dropout", DropoutSpec{.keep_prob = keep_prob_}});
    net_.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::fan_in_uniform()}});
    return std::move(net_);
  }

 private:
  void add_convolution(const std::string& name, int num_outputs, int kernel, int stride = 1,
                       std::vector<std::string> inputs = {}) {
    net_.layers.push_back({name,
                           ConvolutionSpec{.num_outputs = num_outputs,
                                           .kernel = kernel,
                                           .stride = stride,
                                           .padding = Padding::kHalf,
                                           .activation = Activation::kRelu,
                                           .weights = Initializer::fan_in_uniform(),
                                           .biases = Initializer::constant(0.2f)},
                           std::move(inputs)});
  }

  /// For even sizes Caffe pads pools at the bottom and right, like TensorFlow's SAME.
  void add_pool(const char* name) {
    net_.layers.push_back({name, MaxPoolSpec{.window = 3, .stride = 2}});
    trunk_ = name;
  }

  void add_block(const MixedBlock& block) {
    add_mixed_block(net_, block, trunk_, 5,
                    [&](const std::string& name, int num_outputs, int kernel, const std::vector<std::string>& inputs) {
                      add_convolution(name, num_outputs, kernel, 1, inputs);
                    });
    trunk_ = block.name;
  }

  void add_classifier(const std::string& name) {
    net_.layers.push_back(
        {name + "_average", AveragePoolSpec{.window = 5, .stride = 3, .padding = Padding::kValid}, {trunk_}});
    add_convolution(name + "_1x1", 128, 1);
    net_.layers.push_back({name + "_fc", FullyConnectedSpec{.num_outputs = 1024,
                                                            .activation = Activation::kRelu,
                                                            .weights = Initializer::fan_in_uniform(),
                                                            .biases = Initializer::constant(0.2f)}});
    net_.layers.push_back({name + "_dropout", DropoutSpec{.keep_prob = keep_prob_ < 1 ? keep_prob_ / 2 : 1}});
    net_.layers.push_back({name + "_logits", FullyConnectedSpec{.weights = Initializer::fan_in_uniform()}});
    net_.auxiliary_losses.push_back({.layer = name + "_logits", .weight = 0.3f});
  }

  float keep_prob_;
  std::string trunk_;  // input of the next block: the last pool or block
  NetSpec net_{"googlenet_2014", {}, /*smallest_side=*/65};
};

}  // namespace

NetSpec googlenet_2014(float keep_prob) { return Googlenet2014Builder(keep_prob).build(); }

}  // namespace terngrad
