// A small net with branches, built as in docs/adding-a-net.md.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad::test {

/// A strided convolution with batch norm feeds a grouped convolution, a max pool and the concatenation of both; then
/// dropout, a grouped 1x1 convolution with a batch norm without gamma, a pool that does not apply a ReLU's gradient,
/// and fully connected layers with dropout between them.
inline NetSpec branched_net(float keep_prob) {
  const Initializer weights = Initializer::truncated_normal(0.1f);
  const ConvolutionSpec stem{
      .num_outputs = 8, .kernel = 3, .stride = 2, .padding = Padding::kSame, .weights = weights, .biases = {}};
  const ConvolutionSpec grouped{.num_outputs = 6,
                                .kernel = 3,
                                .activation = Activation::kRelu,
                                .weights = weights,
                                .biases = Initializer::constant(0.1f),
                                .groups = 2};
  const ConvolutionSpec mix{.num_outputs = 4, .kernel = 1, .weights = weights, .biases = {}, .groups = 2};
  return {
      "branched",
      {{"stem", stem},
       {"stem_norm", BatchNormSpec{.decay = 0.9f, .activation = Activation::kRelu, .gamma = Initializer::constant(1)}},
       {"grouped", grouped},
       {"pooled", MaxPoolSpec{.window = 3, .stride = 1}, {"stem_norm"}},
       {"joined", ConcatenationSpec{}, {"grouped", "pooled", "stem_norm"}},
       {"drop", DropoutSpec{.keep_prob = keep_prob}},
       {"mix", mix},
       {"mix_norm", BatchNormSpec{.activation = Activation::kRelu}},
       {"pool", MaxPoolSpec{.window = 2, .stride = 2}},
       {"fc", FullyConnectedSpec{.num_outputs = 12, .activation = Activation::kRelu, .weights = weights}},
       {"fc_drop", DropoutSpec{.keep_prob = keep_prob}},
       {"logits", FullyConnectedSpec{.num_outputs = 0, .weights = weights}}}};
}

}  // namespace terngrad::test
