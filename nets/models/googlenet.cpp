#include "nets/models/googlenet.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nets/models/mixed_block.h"
#include "nets/models/normalized_convolution.h"

namespace terngrad {
namespace {

class GooglenetBuilder {
 public:
  GooglenetBuilder(const char* name, Padding padding, const std::optional<Initializer>& gamma)
      : padding_(padding), gamma_(gamma), net_{name, {}} {}

  NetSpec build(float keep_prob) && {
    add_convolution("conv1", 64, 7, 2);
    add_pool("pool1", 3);
    add_convolution("conv2_1x1", 64, 1);
    add_convolution("conv2_3x3", 192, 3);
    add_pool("pool2", 3);
    for (const MixedBlock& block : kMixed3) add_block(block);
    add_pool("pool3", 3);
    for (const MixedBlock& block : kMixed4) add_block(block);
    add_pool("pool4", 2);
    for (const MixedBlock& block : kMixed5) add_block(block);
    net_.layers.push_back({"average", AveragePoolSpec{}});
    net_.layers.push_back({"dropout", DropoutSpec{.keep_prob = keep_prob}});
    net_.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::scaled_normal(2)}});
    return std::move(net_);
  }

 private:
  void add_convolution(const std::string& name, int num_outputs, int kernel, int stride = 1,
                       std::vector<std::string> inputs = {}) {
    add_normalized_convolution(net_, name,
                               {.num_outputs = num_outputs,
                                .kernel = kernel,
                                .stride = stride,
                                .padding = padding_,
                                .weights = Initializer::truncated_normal(0.01f)},
                               {.decay = 0.9997f, .epsilon = 0.001f, .gamma = gamma_}, std::move(inputs));
  }

  void add_pool(const char* name, int window) {
    net_.layers.push_back({name, MaxPoolSpec{.window = window, .stride = 2}});
  }

  void add_block(const MixedBlock& block) {
    add_mixed_block(net_, block, net_.layers.back().name, 3,
                    [&](const std::string& name, int num_outputs, int kernel, const std::vector<std::string>& inputs) {
                      add_convolution(name, num_outputs, kernel, 1, inputs);
                    });
  }

  Padding padding_;                   // of convolutions
  std::optional<Initializer> gamma_;  // of batch norms
  NetSpec net_;
};

}  // namespace

NetSpec googlenet(float keep_prob) {
  return GooglenetBuilder("googlenet", Padding::kSame, std::nullopt).build(keep_prob);
}

NetSpec torchvision_googlenet(float keep_prob) {
  return GooglenetBuilder("torchvision_googlenet", Padding::kHalf, Initializer::constant(1)).build(keep_prob);
}

}  // namespace terngrad
