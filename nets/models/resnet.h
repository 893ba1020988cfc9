// Residual nets with four stages, with a batch norm in each shortcut that changes the shape.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.1: a 7x7 convolution with stride 2
/// and a 3x3 max pool with stride 2, both padded with half their window on all sides; four stages of units with 64,
/// 128, 256 and 512 channels, the later ones beginning with a stride of 2; the average over the image and the logits.
/// Where a unit changes the shape, its shortcut is a 1x1 convolution with a batch norm (option B), else its input.
/// Batch norms have a gamma, decay 0.997 and epsilon 1e-5. Initial weights are truncated normals scaled for ReLUs;
/// weight decay applies to all of them. Accepts any image of at least one pixel.
///
/// resnet_18 has two units of two 3x3 convolutions per stage, 11,690,025 parameters with 1001 classes. resnet_50 has 3,
/// 4, 6 and 3 bottlenecks, of a 1x1 convolution, a 3x3 and a 1x1 to four times the channels, 25,559,081 parameters. The
/// stride is in the 3x3 convolution of a stage's first bottleneck ("v1.5", as in torchvision), not in its 1x1 as in the
/// paper.
NetSpec resnet_18();
NetSpec resnet_50();

/// resnet_18 for images of 32 x 32: conv1 is 3x3 with stride 1, and there is no pool. Batch norms have decay 0.9.
/// 11,173,962 parameters with 10 classes.
NetSpec resnet_18_cifar();

}  // namespace terngrad
