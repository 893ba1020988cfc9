#include "nets/models/googlenet.h"

#include <string>
#include <utility>
#include <vector>

#include "nets/models/normalized_convolution.h"

namespace terngrad {
namespace {

/// Outputs of a block's convolutions.
struct MixedBlock {
  const char* name;
  int branch0_1x1;
  int branch1_1x1;
  int branch1_3x3;
  int branch2_1x1;
  int branch2_3x3;
  int branch3_1x1;
};

constexpr MixedBlock kBlocks3[] = {{"3b", 64, 96, 128, 16, 32, 32}, {"3c", 128, 128, 192, 32, 96, 64}};
constexpr MixedBlock kBlocks4[] = {{"4b", 192, 96, 208, 16, 48, 64},
                                   {"4c", 160, 112, 224, 24, 64, 64},
                                   {"4d", 128, 128, 256, 24, 64, 64},
                                   {"4e", 112, 144, 288, 32, 64, 64},
                                   {"4f", 256, 160, 320, 32, 128, 128}};
constexpr MixedBlock kBlocks5[] = {{"5b", 256, 160, 320, 32, 128, 128}, {"5c", 384, 192, 384, 48, 128, 128}};

void add_inception_convolution(NetSpec& net, const std::string& name, int num_outputs, int kernel, int stride = 1,
                               std::vector<std::string> inputs = {}) {
  add_normalized_convolution(
      net, name,
      {.num_outputs = num_outputs, .kernel = kernel, .stride = stride, .weights = Initializer::truncated_normal(0.01f)},
      {.decay = 0.9997f, .epsilon = 0.001f}, std::move(inputs));
}

void add_pool(NetSpec& net, const char* name, int window) {
  net.layers.push_back({name, MaxPoolSpec{.window = window, .stride = 2}});
}

/// Adds a block on top of the last layer.
void add_mixed(NetSpec& net, const MixedBlock& block) {
  const std::string input = net.layers.back().name;
  const std::string name = std::string("mixed_") + block.name;
  add_inception_convolution(net, name + "_branch0_1x1", block.branch0_1x1, 1, 1, {input});
  add_inception_convolution(net, name + "_branch1_1x1", block.branch1_1x1, 1, 1, {input});
  add_inception_convolution(net, name + "_branch1_3x3", block.branch1_3x3, 3);
  add_inception_convolution(net, name + "_branch2_1x1", block.branch2_1x1, 1, 1, {input});
  add_inception_convolution(net, name + "_branch2_3x3", block.branch2_3x3, 3);
  net.layers.push_back({name + "_branch3_pool", MaxPoolSpec{.window = 3, .stride = 1}, {input}});
  add_inception_convolution(net, name + "_branch3_1x1", block.branch3_1x1, 1);
  net.layers.push_back({name,
                        ConcatenationSpec{},
                        {name + "_branch0_1x1_norm", name + "_branch1_3x3_norm", name + "_branch2_3x3_norm",
                         name + "_branch3_1x1_norm"}});
}

}  // namespace

NetSpec googlenet(float keep_prob) {
  NetSpec net{"googlenet", {}};
  add_inception_convolution(net, "conv1", 64, 7, 2);
  add_pool(net, "pool1", 3);
  add_inception_convolution(net, "conv2_1x1", 64, 1);
  add_inception_convolution(net, "conv2_3x3", 192, 3);
  add_pool(net, "pool2", 3);
  for (const MixedBlock& block : kBlocks3) add_mixed(net, block);
  add_pool(net, "pool3", 3);
  for (const MixedBlock& block : kBlocks4) add_mixed(net, block);
  add_pool(net, "pool4", 2);
  for (const MixedBlock& block : kBlocks5) add_mixed(net, block);
  net.layers.push_back({"average", AveragePoolSpec{}});
  net.layers.push_back({"dropout", DropoutSpec{.keep_prob = keep_prob}});
  net.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::scaled_normal(2)}});
  return net;
}

}  // namespace terngrad
