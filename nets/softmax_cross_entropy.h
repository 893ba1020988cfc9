// Softmax cross-entropy: the loss of classifiers unless NetOptions::loss is set.
#pragma once

#include <cstdint>
#include <span>

#include "nets/net.h"

namespace terngrad {

/// Options of one classifier's loss.
struct LossTerm {
  /// e in [0, 1): target 1 - e for the label plus e / num_classes for every class; Szegedy et al., "Rethinking the
  /// Inception Architecture", CVPR 2016, section 7.
  float label_smoothing = 0;
  float weight = 1;           // weight of the loss in the objective
  bool is_auxiliary = false;  // only adds to WorkerLoss::auxiliary_loss, weighted
};

/// Mean softmax cross-entropy of logits z against labels y, and its gradient. With targets
///   t[j] = (1 - label_smoothing) [j = y] + label_smoothing / num_classes
/// these are
///   loss = (1/n) sum over examples of log(sum over j of exp(z[j])) - sum over j of t[j] z[j];
///   gradient[j] = weight (exp(z[j]) / sum - t[j]) / n
/// computed in double from z - max z, so no logit overflows.
/// @param logits    [n, num_classes]. NaN or infinity makes the loss and the gradient nonfinite
/// @param labels    [n], in [0, num_classes); n >= 1
/// @param gradient  [n, num_classes] out: gradient of the weighted mean loss by the logits; may be empty
/// @return the unweighted loss in nats as entropy_loss; num_correct counts examples whose label has the largest logit
///         (first of equals). For an auxiliary term the weighted loss as auxiliary_loss, other fields 0
/// @throws InvalidArgument for a label out of range or spans of other sizes
/// Bitwise repeatable on one machine (std::exp may differ in the last bit between machines).
WorkerLoss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                 std::span<float> gradient, const LossTerm& term = {});

/// Number of examples whose label has the largest logit, the first of equals.
/// @param logits  [labels.size(), num_classes]
/// @throws InvalidArgument for a label outside [0, num_classes)
int count_correct(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes);

}  // namespace terngrad
