// Nets of torchvision without batch norms, for weights that were trained there.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

// Convolutions have biases and ReLUs, and weight decay applies to all weights. Initial weights are truncated normals
// scaled for ReLUs, biases 0. Logits equal torchvision's for images of 224 x 224, where its adaptive pools change
// nothing.

/// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 2014, as torchvision's
/// `alexnet`: five convolutions, overlapping pools after the first two and the last, fully connected layers of 4096,
/// fc6 and fc7, with dropout before each, and the logits. 61,104,937 parameters with 1001 classes; the smallest image
/// is 63x63.
NetSpec torchvision_alexnet(float keep_prob);

/// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, as
/// torchvision's `vgg16`: the layers of vgg_16 (nets/models/vgg.h) without batch norms. 138,361,641 parameters with
/// 1001 classes; the smallest image is 32x32.
NetSpec torchvision_vgg_16(float keep_prob);

}  // namespace terngrad
