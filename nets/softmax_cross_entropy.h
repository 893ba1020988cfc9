// Softmax cross-entropy: the loss of every classifier here.
#pragma once

#include <cstdint>
#include <span>

#include "nets/net.h"

namespace terngrad {

/// Mean softmax cross-entropy of logits z against labels y, and its gradient:
///   loss = (1/n) sum over examples of log(sum over j of exp(z[j])) - z[y];   gradient[j] = (exp(z[j]) / sum - [j = y])
///   / n
/// computed in double from z - max z, so no logit overflows.
/// @param logits    [n, num_classes]. NaN or infinity gives a loss and a gradient that are not finite
/// @param labels    [n], in [0, num_classes); n >= 1
/// @param gradient  [n, num_classes] out: of the mean loss by the logits; empty if it is not wanted
/// @return the loss in nats; num_correct counts examples whose label has the largest logit, the first of equals
/// @throws InvalidArgument for a label out of range or spans of other sizes
/// Bitwise repeatable on one machine (std::exp may differ in the last bit between machines).
WorkerLoss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                 std::span<float> gradient);

}  // namespace terngrad
