// The end of AlexNet, which VGG took over.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Adds to `net` fully connected layers of 4096 with ReLUs, `fc6` and `fc7`, each followed by dropout, and the logits.
/// @param hidden  the weights and biases that fc6 and fc7 begin with; its other fields are not read
/// @param logits  the weights that the logits begin with: their biases begin with 0
void add_dropout_head(NetSpec& net, const FullyConnectedSpec& hidden, const Initializer& logits, float keep_prob);

}  // namespace terngrad
