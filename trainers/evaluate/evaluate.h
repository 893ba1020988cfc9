// Evaluation: accuracy of a net on a whole data set.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "datasets/dataset.h"
#include "nets/net.h"

namespace terngrad {

/// Result of an evaluation.
struct Evaluation {
  double top1 = 0;  // fraction of examples whose label has the largest logit
  double top5 = 0;  // fraction of examples whose label is among the five largest; ties at the boundary count as hits.
                    // NaN counts as larger than any other logit, and is never a hit
  double loss = 0;  // mean cross-entropy, in nats
  std::int64_t num_examples = 0;
};

/// Prediction if a logit is NaN.
inline constexpr std::int32_t kNoClass = -1;

/// How to evaluate; changes the result by no more than the rounding of a net's sums.
struct EvaluationOptions {
  int num_threads = 1;                 // that read examples
  std::int64_t batch_size = 256;       // examples that the net is given at once
  std::function<void()> between = {};  // called between batches, for heartbeats
  /// [num_examples] out, or empty: predicted classes. The example's label if it is a top-1 hit (also if it ties with
  /// others), else the first class with the largest logit; kNoClass if a logit is NaN.
  std::span<std::int32_t> predicted = {};
};

/// Evaluates every example once, in order, without augmentation.
/// @param net         on any device
/// @param parameters  [flat elements], in host memory
/// @param state       [flat elements of the net's state], in host memory; empty if the net has none
/// @throws InvalidArgument if images or classes do not fit the net, `predicted` has another size, or batch_size < 1
Evaluation evaluate(Net& net, std::span<const float> parameters, std::span<const float> state, const Dataset& dataset,
                    const EvaluationOptions& options = {});

/// `top-1 = 0.9912 top-5 = 1.0000 [10000 examples]`.
std::string to_string(const Evaluation& evaluation);

}  // namespace terngrad
