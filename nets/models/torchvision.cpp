#include "nets/models/torchvision.h"

#include <algorithm>
#include <string>

#include "nets/models/dropout_head.h"

namespace terngrad {
namespace {

const Initializer kWeights = Initializer::scaled_normal(2);

ConvolutionSpec convolution(int num_outputs, int kernel) {
  return {.num_outputs = num_outputs, .kernel = kernel, .activation = Activation::kRelu, .weights = kWeights};
}

}  // namespace

NetSpec torchvision_alexnet(float keep_prob) {
  ConvolutionSpec first = convolution(64, 11);
  first.stride = 4;
  first.padding = Padding::kTwo;
  const MaxPoolSpec pool{.window = 3, .stride = 2, .padding = Padding::kValid};
  const FullyConnectedSpec hidden{.num_outputs = 4096, .activation = Activation::kRelu, .weights = kWeights};
  const DropoutSpec dropout{.keep_prob = keep_prob};
  return {"torchvision_alexnet",
          {{"conv1", first},
           {"pool1", pool},
           {"conv2", convolution(192, 5)},
           {"pool2", pool},
           {"conv3", convolution(384, 3)},
           {"conv4", convolution(256, 3)},
           {"conv5", convolution(256, 3)},
           {"pool5", pool},
           {"dropout6", dropout},
           {"fc6", hidden},
           {"dropout7", dropout},
           {"fc7", hidden},
           {"logits", FullyConnectedSpec{.weights = kWeights}}},
          /*smallest_side=*/63};
}

NetSpec torchvision_vgg_16(float keep_prob) {
  NetSpec net{"torchvision_vgg_16", {}, /*smallest_side=*/32};
  int block = 1;
  for (const int convolutions : {2, 2, 3, 3, 3}) {
    for (int index = 1; index <= convolutions; ++index) {
      net.layers.push_back(
          {"conv" + std::to_string(block) + "_" + std::to_string(index), convolution(std::min(32 << block, 512), 3)});
    }
    net.layers.push_back(
        {"pool" + std::to_string(block), MaxPoolSpec{.window = 2, .stride = 2, .padding = Padding::kValid}});
    ++block;
  }
  add_dropout_head(net, {.weights = kWeights}, kWeights, keep_prob);
  return net;
}

}  // namespace terngrad
