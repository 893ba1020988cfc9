// A convolution with the batch norm of its outputs, as most nets for ImageNet are made of.
#pragma once

#include <string>
#include <vector>

#include "nets/layer_spec.h"

namespace terngrad {

/// Adds to `net` the convolution `name`, without biases, and `<name>_norm`, the batch norm of its outputs with a ReLU.
/// The next layer takes that one. `inputs` are the convolution's: see LayerSpec::inputs.
void add_normalized_convolution(NetSpec& net, const std::string& name, ConvolutionSpec convolution, BatchNormSpec norm,
                                std::vector<std::string> inputs = {});

}  // namespace terngrad
