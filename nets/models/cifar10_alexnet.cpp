#include "nets/models/cifar10_alexnet.h"

namespace terngrad {
namespace {

LayerSpec convolution_5x5(const char* name, float bias) {
  return {name, ConvolutionSpec{.num_outputs = 64,
                                .kernel = 5,
                                .activation = Activation::kRelu,
                                .weights = Initializer::truncated_normal(0.05f),
                                .biases = Initializer::constant(bias),
                                .regularized = Regularized::kNo}};
}

LayerSpec fully_connected(const char* name, int num_outputs) {
  return {name, FullyConnectedSpec{.num_outputs = num_outputs,
                                   .activation = Activation::kRelu,
                                   .weights = Initializer::truncated_normal(0.04f),
                                   .biases = Initializer::constant(0.1f)}};
}

}  // namespace

NetSpec cifar10_alexnet() {
  constexpr int kClasses = 0;  // as many outputs as classes
  const MaxPoolSpec pool{.window = 3, .stride = 2};
  const LrnSpec lrn{.radius = 4, .k = 1, .alpha = 0.001f / 9, .beta = 0.75f};
  const FullyConnectedSpec logits{.num_outputs = kClasses,
                                  .weights = Initializer::truncated_normal(1.0f / 192),
                                  .biases = Initializer::constant(0),
                                  .regularized = Regularized::kNo};
  return {"cifar10_alexnet",
          {convolution_5x5("conv1", 0),
           {"pool1", pool},
           {"lrn1", lrn},
           convolution_5x5("conv2", 0.1f),
           {"lrn2", lrn},
           {"pool2", pool},
           fully_connected("fc3", 384),
           fully_connected("fc4", 192),
           {"logits", logits}}};
}

}  // namespace terngrad
