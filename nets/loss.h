// Losses that may take the place of softmax cross-entropy (NetOptions::loss).
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

// Both compare each logit z with a target t, 1 for the label's class and 0 for others. They are means over examples and
// classes, computed in double. Arguments are those of Loss (net.h).

/// -t log(p) - (1 - t) log(1 - p) with p = 1 / (1 + exp(-z)), without overflow: a yes or no for every class.
double sigmoid_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                             std::span<float> gradient);
/// (z - t)^2.
double mean_squared_error(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                          std::span<float> gradient);

}  // namespace terngrad
