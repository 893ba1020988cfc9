// GoogLeNet of the original TernGrad experiments.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, as the public TernGrad code trains it: with batch norms
/// (decay 0.9997, epsilon 0.001, no gamma) before the ReLUs, without the auxiliary classifiers, and with 3x3
/// convolutions for the 5x5 ones. A block `mixed_<name>` joins a 1x1 convolution, `branch0_1x1`; a 1x1 and a 3x3,
/// `branch1_1x1` and `branch1_3x3`; the same again, `branch2_...`; and a 3x3 max pool and a 1x1, `branch3_pool` and
/// `branch3_1x1`. The average over the image, dropout and the logits follow. Weight decay applies to all weights.
/// 6,618,649 parameters with 1001 classes; accepts any image of at least one pixel.
NetSpec googlenet(float keep_prob);

/// The same as torchvision's `googlenet` has it, without its auxiliary classifiers: batch norms have a gamma, and conv1
/// is padded by 3 on all sides. 6,625,929 parameters with 1001 classes.
NetSpec torchvision_googlenet(float keep_prob);

}  // namespace terngrad
