// Small nets with shortcuts: both kinds of residual units, and blocks with Inception's kernels.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad::test {

/// A unit with an identity shortcut, a unit with a shortcut of every second pixel and zero-padded channels, a sum of
/// three inputs without ReLU, and a global average pool.
inline NetSpec residual_net() {
  const Initializer weights = Initializer::scaled_normal(2);
  const auto convolution = [&](int num_outputs, int stride) {
    return ConvolutionSpec{.num_outputs = num_outputs,
                           .kernel = 3,
                           .stride = stride,
                           .padding = Padding::kHalf,
                           .weights = weights,
                           .biases = std::nullopt};
  };
  const BatchNormSpec plain{.decay = 0.9f, .epsilon = 1e-5f, .gamma = Initializer::constant(1)};
  BatchNormSpec rectified = plain;
  rectified.activation = Activation::kRelu;
  return {"residual",
          {{"stem", convolution(4, 1)},
           {"stem_norm", rectified},
           {"conv1", convolution(4, 1)},
           {"norm1", plain},
           {"sum1", AddSpec{Activation::kRelu}, {"norm1", "stem_norm"}},
           {"conv2", convolution(6, 2)},
           {"norm2", plain},
           {"every_second", MaxPoolSpec{.window = 1, .stride = 2, .padding = Padding::kValid}, {"sum1"}},
           {"padded", PadChannelsSpec{.num_outputs = 6}},
           {"sum2", AddSpec{Activation::kRelu}, {"norm2", "padded"}},
           {"sum3", AddSpec{}, {"sum2", "norm2", "sum2"}},
           {"average", AveragePoolSpec{}},
           {"logits", FullyConnectedSpec{.weights = weights}}}};
}

/// 1 x 5 and 5 x 1 convolutions, one of them without padding and with stride, and 1 x 3 beside 3 x 1.
inline NetSpec rectangular_net() {
  const Initializer weights = Initializer::xavier_uniform();
  const auto convolution = [&](int num_outputs, WindowSize kernel) {
    return ConvolutionSpec{
        .num_outputs = num_outputs, .kernel = kernel, .activation = Activation::kRelu, .weights = weights};
  };
  ConvolutionSpec reduction = convolution(4, {3, 2});
  reduction.stride = 2;
  reduction.padding = Padding::kValid;
  return {"rectangular",
          {{"row", convolution(5, {1, 5})},
           {"column", convolution(4, {5, 1})},
           {"reduction", reduction},
           {"wide", convolution(3, {1, 3})},
           {"tall", convolution(3, {3, 1}), {"reduction"}},
           {"joined", ConcatenationSpec{}, {"wide", "tall"}},
           {"logits", FullyConnectedSpec{.weights = weights}}}};
}

}  // namespace terngrad::test
