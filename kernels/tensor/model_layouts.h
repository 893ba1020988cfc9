// Layouts of well-known models, to measure and predict with their sizes where the nets themselves are not needed.
#pragma once

#include <string>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// "lenet", "cifar10_alexnet", "alexnet" or "vgg_a": the tensors that the original trains, with 1001 classes for the
/// last two. @throws InvalidArgument for another name
Layout model_layout(const std::string& name);

/// The names above.
const std::vector<std::string>& model_names();

}  // namespace terngrad
