// The classifier head of AlexNet and VGG.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Adds to `net` fully connected layers of 4096 with ReLUs, `fc6` and `fc7`, each followed by dropout, and the logits.
/// @param hidden  initializers of fc6 and fc7; its other fields are ignored
/// @param logits  initializer of the logits' weights; their biases are initially 0
void add_dropout_head(NetSpec& net, const FullyConnectedSpec& hidden, const Initializer& logits, float keep_prob);

}  // namespace terngrad
