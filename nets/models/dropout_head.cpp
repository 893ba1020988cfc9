#include "nets/models/dropout_head.h"

#include <string>

namespace terngrad {

void add_dropout_head(NetSpec& net, const FullyConnectedSpec& hidden, const Initializer& logits, float keep_prob) {
  for (const char* index : {"6", "7"}) {
    net.layers.push_back({std::string("fc") + index, FullyConnectedSpec{.num_outputs = 4096,
                                                                        .activation = Activation::kRelu,
                                                                        .weights = hidden.weights,
                                                                        .biases = hidden.biases}});
    net.layers.push_back({std::string("dropout") + index, DropoutSpec{.keep_prob = keep_prob}});
  }
  net.layers.push_back({"logits", FullyConnectedSpec{.weights = logits, .biases = Initializer::constant(0)}});
}

}  // namespace terngrad
