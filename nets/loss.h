// Loss: a training loss of a caller's own, in place of softmax cross-entropy.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace terngrad {

/// A loss for nets on the CPU (NetOptions::loss): returns the mean loss of a slice's examples and writes its gradient
/// by the logits. Threads call it for different slices at once; its bits must depend on the arguments only. logits [n,
/// num_classes] labels    [n], in [0, num_classes); n >= 1 gradient  [n, num_classes] out An example's softmax
/// cross-entropy is softmax_cross_entropy(...).entropy_loss (softmax_cross_entropy.h).
using Loss = std::function<double(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                  std::span<float> gradient)>;

// Two losses that compare each logit z with a target t, 1 for the label's class and 0 for others. They are means over
// examples and classes, computed in double.

/// -t log(p) - (1 - t) log(1 - p) with p = 1 / (1 + exp(-z)), without overflow: a yes or no for every class.
double sigmoid_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                             std::span<float> gradient);
/// (z - t)^2.
double mean_squared_error(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                          std::span<float> gradient);

}  // namespace terngrad
