#include "nets/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Loss of one example; writes its gradient times `scale`, unless the gradient span is empty.
double example_loss(std::span<const float> z, std::size_t label, double smoothing, double scale,
                    std::span<float> gradient) {
  const double max = *std::max_element(z.begin(), z.end());
  const double of_every_class = smoothing / static_cast<double>(z.size());
  double sum = 0;
  for (const float value : z) sum += std::exp(value - max);
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    const double probability = std::exp(z[j] - max) / sum;
    gradient[j] = static_cast<float>((probability - (j == label ? 1.0 - smoothing : 0.0) - of_every_class) * scale);
  }
  const double entropy = std::log(sum) - (1.0 - smoothing) * (z[label] - max);
  if (smoothing == 0) return entropy;
  double distances = 0;
  for (const float value : z) distances += value - max;
  return entropy - of_every_class * distances;
}

}  // namespace

WorkerLoss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                                 std::span<float> gradient, const LossTerm& term) {
  const std::size_t num_examples = labels.size();
  const auto classes = static_cast<std::size_t>(std::max(num_classes, 0));
  TERNGRAD_REQUIRE(num_examples >= 1 && classes >= 1 && logits.size() == num_examples * classes,
                   "[softmax_cross_entropy] expected [examples, classes] logits with at least one of each, have ",
                   logits.size(), " logits for ", num_examples, " labels and ", num_classes, " classes");
  TERNGRAD_REQUIRE(gradient.empty() || gradient.size() == logits.size(),
                   "[softmax_cross_entropy] the gradient must be empty or as large as the logits, ", logits.size(),
                   "; it has ", gradient.size());
  const double scale = 1.0 / static_cast<double>(num_examples);
  WorkerLoss loss{.num_correct = count_correct(logits, labels, num_classes)};
  for (std::size_t n = 0; n < num_examples; ++n) {
    const auto label = static_cast<std::size_t>(labels[n]);
    const auto z = logits.subspan(n * classes, classes);
    const auto row = gradient.empty() ? gradient : gradient.subspan(n * classes, classes);
    loss.entropy_loss += example_loss(z, label, double{term.label_smoothing}, scale * double{term.weight}, row);
  }
  loss.entropy_loss *= scale;
  if (term.is_auxiliary) return {.auxiliary_loss = double{term.weight} * loss.entropy_loss};
  return loss;
}

int count_correct(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes) {
  const auto classes = static_cast<std::size_t>(num_classes);
  int num_correct = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    TERNGRAD_REQUIRE(labels[n] >= 0 && labels[n] < num_classes, "[Net] label ", n, " must be in [0, ", num_classes,
                     "), is ", labels[n]);
    const auto z = logits.subspan(n * classes, classes);
    const auto winner = std::max_element(z.begin(), z.end()) - z.begin();
    if (winner == labels[n] && !std::isnan(z[static_cast<std::size_t>(winner)])) ++num_correct;
  }
  return num_correct;
}

}  // namespace terngrad
