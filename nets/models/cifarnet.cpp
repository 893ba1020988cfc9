#include "nets/models/cifarnet.h"

namespace terngrad {

NetSpec cifarnet(float keep_prob) {
  const ConvolutionSpec convolution{.num_outputs = 64,
                                    .kernel = 5,
                                    .activation = Activation::kRelu,
                                    .weights = Initializer::truncated_normal(0.05f),
                                    .regularized = Regularized::kNo};
  const auto hidden = [](int num_outputs) {
    return FullyConnectedSpec{.num_outputs = num_outputs,
                              .activation = Activation::kRelu,
                              .weights = Initializer::truncated_normal(0.04f),
                              .biases = Initializer::constant(0.1f)};
  };
  const MaxPoolSpec pool{.window = 2, .stride = 2, .padding = Padding::kValid};
  const LrnSpec lrn{.radius = 4, .k = 1, .alpha = 0.001f / 9, .beta = 0.75f};
  const FullyConnectedSpec logits{.weights = Initializer::truncated_normal(1.0f / 192),
                                  .regularized = Regularized::kNo};
  return {"cifarnet",
          {{"conv1", convolution},
           {"pool1", pool},
           {"lrn1", lrn},
           {"conv2", convolution},
           {"lrn2", lrn},
           {"pool2", pool},
           {"fc3", hidden(384)},
           {"dropout3", DropoutSpec{.keep_prob = keep_prob}},
           {"fc4", hidden(192)},
           {"logits", logits}},
          /*smallest_side=*/4};
}

}  // namespace terngrad
