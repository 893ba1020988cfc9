#include "nets/models/alexnet_v2.h"

#include "nets/models/dropout_head.h"

namespace terngrad {

NetSpec alexnet_v2(float keep_prob) {
  const Initializer biases = Initializer::constant(0.1f);
  const auto convolution = [&](int num_outputs, int kernel) {
    return ConvolutionSpec{.num_outputs = num_outputs,
                           .kernel = kernel,
                           .activation = Activation::kRelu,
                           .weights = Initializer::xavier_uniform(),
                           .biases = biases};
  };
  ConvolutionSpec first = convolution(64, 11);
  first.stride = 4;
  first.padding = Padding::kValid;
  const MaxPoolSpec pool{.window = 3, .stride = 2, .padding = Padding::kValid};
  NetSpec net{"alexnet_v2",
              {{"conv1", first},
               {"pool1", pool},
               {"conv2", convolution(192, 5)},
               {"pool2", pool},
               {"conv3", convolution(384, 3)},
               {"conv4", convolution(384, 3)},
               {"conv5", convolution(256, 3)},
               {"pool5", pool}},
              /*smallest_side=*/67};
  const Initializer weights = Initializer::truncated_normal(0.005f);
  add_dropout_head(net, {.weights = weights, .biases = biases}, weights, keep_prob);
  return net;
}

}  // namespace terngrad
