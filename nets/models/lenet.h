// LeNet of the original TernGrad experiments.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// LeNet as in the public TernGrad code (slim's variant, not Caffe's: SAME convolutions with ReLU, a wider fc3): two
/// 5x5 convolutions of 20 and 50 channels, each with a 2x2 max pool, a fully connected layer of 500 and the logits.
/// 1,256,080 parameters at 28x28x1 and 10 classes; accepts any image of at least one pixel.
NetSpec lenet();

}  // namespace terngrad
