// Evaluation: accuracy of a net on a whole data set.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "datasets/dataset.h"
#include "nets/net.h"

namespace terngrad {

struct Evaluation {
  double top1 = 0;  // fraction of examples whose label has the largest logit
  double top5 = 0;  // fraction whose label is among the five largest; ties at the boundary count as hits.
                    // A label whose logit is NaN never is, and a NaN counts as greater than any other logit
  double loss = 0;  // mean cross-entropy, in nats
  std::int64_t num_examples = 0;
};

/// Examples that evaluate hands to the net at once.
inline constexpr std::int64_t kEvaluationBatch = 256;

/// Stands for no class among predictions.
inline constexpr std::int32_t kNoClass = -1;

/// Evaluates every example once, in order, without augmentation.
/// @param net         on any device
/// @param parameters  [flat elements], in host memory
/// @param state       [flat elements of the net's state], in host memory: empty where it has none
/// @param num_threads threads that read examples
/// @param between     called between batches, for signs of life
/// @param predicted  [num_examples] out, or empty: the class of each example in order. It is the example's label
///                   exactly where that is a hit of top1 (of classes that share the largest logit, the label); else
///                   the first class of the largest logit, or kNoClass where a logit is NaN
/// @throws InvalidArgument if images or classes are not the net's, or `predicted` has another size
Evaluation evaluate(Net& net, std::span<const float> parameters, std::span<const float> state, const Dataset& dataset,
                    int num_threads, const std::function<void()>& between = {}, std::span<std::int32_t> predicted = {});

/// `top-1 = 0.9912 top-5 = 1.0000 [10000 examples]`.
std::string to_string(const Evaluation& evaluation);

}  // namespace terngrad
