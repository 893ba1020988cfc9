// Softmax cross-entropy: the loss of every classifier here.
#pragma once

#include <cstdint>
#include <span>

#include "nets/net.h"

namespace terngrad {

/// What a net makes of the loss of one of its classifiers.
struct LossTerm {
  float label_smoothing = 0;  // e in [0, 1): the label counts 1 - e, and every class e / num_classes more; Szegedy et
                              // al., "Rethinking the Inception Architecture", CVPR 2016, section 7
  float weight = 1;           // of the loss in what is minimized
  bool is_auxiliary = false;  // counts into WorkerLoss::auxiliary_loss, times its weight, and into nothing else
};

/// Mean softmax cross-entropy of logits z against labels y, and its gradient. With targets
///   t[j] = (1 - label_smoothing) [j = y] + label_smoothing / num_classes
/// these are
///   loss = (1/n) sum over examples of log(sum over j of exp(z[j])) - sum over j of t[j] z[j];
///   gradient[j] = weight (exp(z[j]) / sum - t[j]) / n
/// computed in double from z - max z, so no logit overflows.
/// @param logits    [n, num_classes]. NaN or infinity gives a loss and a gradient that are not finite
/// @param labels    [n], in [0, num_classes); n >= 1
/// @param gradient  [n, num_classes] out: of the weighted mean loss by the logits; empty if it is not wanted
/// @return the loss in nats, not weighted, as entropy_loss; num_correct counts examples whose label has the largest
///         logit, the first of equals. Of an auxiliary term the weighted loss as auxiliary_loss, and zeros
/// @throws InvalidArgument for a label out of range or spans of other sizes
/// Bitwise repeatable on one machine (std::exp may differ in the last bit between machines).
WorkerLoss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                 std::span<float> gradient, const LossTerm& term = {});

}  // namespace terngrad
