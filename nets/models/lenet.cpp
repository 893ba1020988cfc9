#include "nets/models/lenet.h"

namespace terngrad {
namespace {

LayerSpec convolution_5x5(const char* name, int num_outputs) {
  return {name, ConvolutionSpec{.num_outputs = num_outputs,
                                .kernel = 5,
                                .activation = Activation::kRelu,
                                .weights = Initializer::truncated_normal(0.05f),
                                .biases = Initializer::constant(0)}};
}

LayerSpec fully_connected(const char* name, int num_outputs, Activation activation, float stddev) {
  return {name, FullyConnectedSpec{.num_outputs = num_outputs,
                                   .activation = activation,
                                   .weights = Initializer::truncated_normal(stddev),
                                   .biases = Initializer::constant(0)}};
}

}  // namespace

NetSpec lenet() {
  constexpr int kClasses = 0;  // as many outputs as classes
  const MaxPoolSpec pool{.window = 2, .stride = 2};
  return {"lenet",
          {convolution_5x5("conv1", 20),
           {"pool1", pool},
           convolution_5x5("conv2", 50),
           {"pool2", pool},
           fully_connected("fc3", 500, Activation::kRelu, 0.048f),
           fully_connected("logits", kClasses, Activation::kNone, 0.0767f)}};
}

}  // namespace terngrad
