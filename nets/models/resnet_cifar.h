// Residual nets for 32 x 32 images.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2: a 3x3 convolution of 16 channels,
/// then three stages of `units_per_stage` units with 16, 32 and 64 channels, the average over the image and the logits.
/// A unit is two 3x3 convolutions with batch norms, and a ReLU of their sum with the unit's input; where channels
/// double, the first convolution has stride 2, and the shortcut takes every second row and column and appends channels
/// of zeros (option A). 3 units per stage are resnet_20, 9 are resnet_56: 269,722 and 853,018 parameters with 10
/// classes. Batch norms have a gamma, decay 0.9 and epsilon 1e-5. Initial weights are truncated normals scaled for
/// ReLUs.
NetSpec resnet_cifar(const char* name, int units_per_stage);

}  // namespace terngrad
