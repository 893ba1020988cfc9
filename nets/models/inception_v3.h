// Inception v3 of the original TernGrad code.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, as the public TernGrad code
/// has it: convolutions with batch norms (decay 0.9997, epsilon 0.001, no gamma) and ReLUs; blocks `mixed_35a` to
/// `mixed_8c`, named by the size of their maps for images of 299 x 299; the average over the map, dropout and the
/// logits; an auxiliary classifier on mixed_17e, whose loss counts 0.4; label smoothing 0.1 in both losses. Branches
/// are named `<block>_branch<index>_<place>`. Weight decay applies to all weights. 27,145,970 parameters at 299x299x3
/// and 1001 classes, of which inference uses 23,819,401; the smallest image is 107x107.
NetSpec inception_v3(float keep_prob);

/// The same as torchvision's `inception_v3` has it: batch norms have a gamma, and average pools count their padding.
/// 27,164,082 parameters at 299x299x3 and 1001 classes.
NetSpec torchvision_inception_v3(float keep_prob);

}  // namespace terngrad
