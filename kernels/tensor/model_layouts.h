// Layouts of well-known models, to measure and predict with their sizes where the nets themselves are not needed.
#pragma once

#include <string>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// The tensors of the net that nets/net.h knows by this name, on the images that it is meant for: 10 classes for the
/// nets for MNIST and CIFAR-10, 1001 for those for ImageNet, of which the first is none, as in the original.
/// @throws InvalidArgument for another name
Layout model_layout(const std::string& name);

/// The names of all nets.
const std::vector<std::string>& model_names();

}  // namespace terngrad
