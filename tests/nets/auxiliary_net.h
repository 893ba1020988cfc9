// A small net with auxiliary classifiers.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad::test {

/// Two auxiliary classifiers between the layers of inference: one with a batch norm and a convolution over the whole
/// map, one with dropout. Labels are smoothed.
inline NetSpec net_of_three_losses(float keep_prob) {
  const Initializer weights = Initializer::fan_in_uniform();
  const auto convolution = [&](int num_outputs, WindowSize kernel) {
    return ConvolutionSpec{
        .num_outputs = num_outputs, .kernel = kernel, .activation = Activation::kRelu, .weights = weights};
  };
  ConvolutionSpec whole = convolution(5, {});
  whole.activation = Activation::kNone;
  whole.biases = std::nullopt;
  return {"three_losses",
          {{"stem", convolution(4, 3)},
           {"auxiliary1_average", AveragePoolSpec{.window = 5, .stride = 2, .padding = Padding::kValid}},
           {"auxiliary1_whole", whole},
           {"auxiliary1_norm", BatchNormSpec{.activation = Activation::kRelu}},
           {"auxiliary1_logits", FullyConnectedSpec{.weights = weights}},
           {"pool", MaxPoolSpec{.window = 2, .stride = 2}, {"stem"}},
           {"middle", convolution(6, 3)},
           {"auxiliary2_dropout", DropoutSpec{.keep_prob = keep_prob}},
           {"auxiliary2_logits", FullyConnectedSpec{.weights = weights}},
           {"top", convolution(5, 1), {"middle"}},
           {"logits", FullyConnectedSpec{.weights = weights}}},
          /*smallest_side=*/5,
          {{"auxiliary1_logits", 0.4f}, {"auxiliary2_logits", 0.75f}},
          /*label_smoothing=*/0.1f};
}

}  // namespace terngrad::test
