// Moving statistics of batch norm: zero-debiased moving averages of batch means and variances.
#pragma once

#include <span>

namespace terngrad::cpu {

/// The state of one batch norm (see BatchNormSpec).
struct MovingStatistics {
  std::span<float> mean;
  std::span<float> variance;
  float* weight = nullptr;
};

/// weight <- decay weight + (1 - decay), then mean <- mean + ((1 - decay) / weight) (batch_mean - mean), and likewise
/// the variance; with weight 0 the batch's statistics replace them exactly. Computed in double, each result rounded to
/// float once, the new weight used before rounding; bit-equal on every machine. Nonfinite batch statistics change
/// nothing, since a moving average would keep them forever.
/// @param decay   in [0, 1)
/// @param batch_mean, batch_variance  [channels], as the statistics
void update_moving_statistics(float decay, std::span<const float> batch_mean, std::span<const float> batch_variance,
                              const MovingStatistics& statistics);

}  // namespace terngrad::cpu
