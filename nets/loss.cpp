#include "nets/loss.h"

#include <cmath>
#include <cstddef>

namespace terngrad {
namespace {

struct Point {
  double loss = 0;
  double slope = 0;  // derivative by the logit
};

/// The mean of point_of(logit, target) over examples and classes, and its gradient.
template <class PointOf>
double mean_over_logits(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                        std::span<float> gradient, PointOf&& point_of) {
  const auto classes = static_cast<std::size_t>(num_classes);
  const auto count = static_cast<double>(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool is_label = static_cast<std::size_t>(labels[i / classes]) == i % classes;
    const Point point = point_of(double{logits[i]}, is_label ? 1.0 : 0.0);
    sum += point.loss;
    gradient[i] = static_cast<float>(point.slope / count);
  }
  return sum / count;
}

}  // namespace

double sigmoid_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                             std::span<float> gradient) {
  return mean_over_logits(logits, labels, num_classes, gradient, [](double z, double target) -> Point {
    const double tail = std::exp(-std::fabs(z));
    const double probability = (z >= 0 ? 1.0 : tail) / (1 + tail);
    return {std::fmax(z, 0.0) - z * target + std::log1p(tail), probability - target};
  });
}

double mean_squared_error(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                          std::span<float> gradient) {
  return mean_over_logits(logits, labels, num_classes, gradient, [](double z, double target) -> Point {
    return {(z - target) * (z - target), 2 * (z - target)};
  });
}

}  // namespace terngrad
