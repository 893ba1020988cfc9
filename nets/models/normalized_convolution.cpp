#include "nets/models/normalized_convolution.h"

#include <utility>

namespace terngrad {

void add_normalized_convolution(NetSpec& net, const std::string& name, ConvolutionSpec convolution, BatchNormSpec norm,
                                std::vector<std::string> inputs) {
  convolution.biases = std::nullopt;  // the batch norm would subtract them
  norm.activation = Activation::kRelu;
  net.layers.push_back({name, convolution, std::move(inputs)});
  net.layers.push_back({name + "_norm", norm});
}

}  // namespace terngrad
