// AlexNet with one tower, from the original TernGrad code.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 2014, as the public TernGrad
/// code has it: five convolutions with biases and ReLUs, overlapping pools after the first two and the last, fully
/// connected layers of 4096 with dropout, fc6 and fc7, and the logits; neither batch norms nor LRNs. Only the
/// convolutions after the first are padded. Weight decay applies to all weights. 50,308,009 parameters at 224x224x3 and
/// 1001 classes; the smallest image is 67x67.
NetSpec alexnet_v2(float keep_prob);

}  // namespace terngrad
