// The small AlexNet for CIFAR-10 of the original TernGrad experiments.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// The net of the public TernGrad code for CIFAR-10 (TensorFlow's CIFAR-10 tutorial net, "CifarNet" in the paper): two
/// 5x5 convolutions of 64 channels, each with an overlapping 3x3 max pool and an LRN, fully connected layers of 384 and
/// 192 and the logits. The first block pools before it normalizes, the second after. Weight decay applies to fc3 and
/// fc4 only. 1,068,298 parameters at 24x24x3 and 10 classes; accepts any image of at least one pixel.
NetSpec cifar10_alexnet();

}  // namespace terngrad
