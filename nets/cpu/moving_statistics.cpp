#include "nets/cpu/moving_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace terngrad::cpu {
namespace {

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void move_towards(std::span<const float> batch, double rate, std::span<float> average) {
  for (std::size_t i = 0; i < average.size(); ++i) {
    const double from = average[i];
    average[i] = rate < 1 ? static_cast<float>(from + rate * (batch[i] - from)) : batch[i];
  }
}

}  // namespace

void update_moving_statistics(float decay, std::span<const float> batch_mean, std::span<const float> batch_variance,
                              const MovingStatistics& statistics) {
  if (!is_finite(batch_mean) || !is_finite(batch_variance)) return;
  const double gain = 1 - static_cast<double>(decay);
  const double weight = static_cast<double>(decay) * static_cast<double>(*statistics.weight) + gain;
  *statistics.weight = static_cast<float>(weight);
  move_towards(batch_mean, gain / weight, statistics.mean);
  move_towards(batch_variance, gain / weight, statistics.variance);
}

}  // namespace terngrad::cpu
