// slim's net for CIFAR-10.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// The cifarnet of TensorFlow's slim, a relative of cifar10_alexnet: two 5x5 convolutions of 64 channels, each with a
/// 2x2 max pool and an LRN, fully connected layers of 384, with dropout, and 192, and the logits. The first block pools
/// before it normalizes, the second after. Weight decay applies to fc3 and fc4 only. Biases are initially 0, those of
/// fc3 and fc4 0.1. 1,756,426 parameters at 32x32x3 and 10 classes; the smallest image is 4x4.
NetSpec cifarnet(float keep_prob);

}  // namespace terngrad
