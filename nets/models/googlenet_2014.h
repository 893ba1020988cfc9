// GoogLeNet as in its paper.
#pragma once

#include "nets/layer_spec.h"

namespace terngrad {

/// Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, as Caffe's bvlc_googlenet has it: ReLUs without batch
/// norms, biases initially 0.2, LRNs after the first pool and the second convolution, 5x5 convolutions, and two
/// auxiliary classifiers on mixed_4b and mixed_4e, each a 5x5 average with stride 3, a 1x1 convolution of 128 outputs,
/// a fully connected layer of 1024, dropout and logits, whose losses count 0.3 each. Blocks are those of googlenet.h
/// with `branch2_5x5`. The main classifier's dropout keeps `keep_prob`, 0.6 in the paper, the auxiliary ones' half of
/// it; 1 disables both. Weight decay applies to all weights. 13,381,355 parameters at 224x224x3 and 1001 classes, of
/// which inference uses 6,999,577; the smallest image is 65x65.
NetSpec googlenet_2014(float keep_prob);

}  // namespace terngrad
