#include "nets/models/vgg.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "nets/models/dropout_head.h"
#include "nets/models/normalized_convolution.h"

namespace terngrad {

NetSpec vgg(const char* name, const std::array<int, 5>& convolutions_of_blocks, float keep_prob) {
  NetSpec net{name, {}, /*smallest_side=*/32};
  for (int block = 1; block <= 5; ++block) {
    for (int index = 1; index <= convolutions_of_blocks[static_cast<std::size_t>(block - 1)]; ++index) {
      add_normalized_convolution(
          net, "conv" + std::to_string(block) + "_" + std::to_string(index),
          {.num_outputs = std::min(32 << block, 512), .kernel = 3, .weights = Initializer::xavier_uniform()},
          {.decay = 0.999f, .epsilon = 0.001f});
    }
    net.layers.push_back(
        {"pool" + std::to_string(block), MaxPoolSpec{.window = 2, .stride = 2, .padding = Padding::kValid}});
  }
  add_dropout_head(net, {.weights = Initializer::xavier_uniform(), .biases = Initializer::constant(0)},
                   Initializer::xavier_uniform(), keep_prob);
  return net;
}

}  // namespace terngrad
