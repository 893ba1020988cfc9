// AlexNet with two towers, from the original TernGrad experiments.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", NIPS 2012, as the public
/// TernGrad code has it: five convolutions in two towers, which share channels in conv3 only, each with a batch norm
/// (decay 0.9997, epsilon 0.001, no gamma) and a ReLU; LRNs and overlapping pools after the first two, a pool after
/// the last; fully connected layers of 4096 with dropout, fc6 and fc7, and the logits. Towers are separate layers,
/// `<layer>_1` and `<layer>_2`, so that tensors, their order and their scalers are the original's. Weight decay applies
/// to all weights. 60,969,321 parameters at 224x224x3 and 1001 classes; the smallest image is 57x57.
NetSpec alexnet(float keep_prob);

}  // namespace terngrad
