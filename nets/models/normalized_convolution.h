// A convolution followed by a batch norm, the building block of most nets for ImageNet.
#pragma once

#include <string>
#include <vector>

#include "nets/layer_spec.h"

namespace terngrad {

/// Adds to `net` the convolution `name`, without biases, and `<name>_norm`, a batch norm with a ReLU, whose output the
/// next layer takes. `inputs` are the convolution's: see LayerSpec::inputs.
void add_normalized_convolution(NetSpec& net, const std::string& name, ConvolutionSpec convolution, BatchNormSpec norm,
                                std::vector<std::string> inputs = {});

}  // namespace terngrad
