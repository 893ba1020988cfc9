// VGG nets of the original TernGrad experiments.
#pragma once

#include <array>

#include "nets/layer_spec.h"

namespace terngrad {

/// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, as the
/// public TernGrad code has them: five blocks of 3x3 convolutions `conv<block>_<index>` with 64, 128, 256, 512 and 512
/// channels, each with a batch norm (decay 0.999, epsilon 0.001, no gamma) and a ReLU, and a 2x2 max pool after each
/// block; fully connected layers of 4096 with dropout, fc6 and fc7, and the logits. Weight decay applies to all
/// weights. The smallest image is 32x32. At 224x224x3 and 1001 classes vgg_a (1, 1, 2, 2 and 2 convolutions) has
/// 132,867,433 parameters and vgg_16 (2, 2, 3, 3 and 3) 138,361,641.
NetSpec vgg(const char* name, const std::array<int, 5>& convolutions_of_blocks, float keep_prob);

}  // namespace terngrad
