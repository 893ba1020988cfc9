// Moving statistics of batch norm: zero-debiased averages of the batches' means and variances.
#pragma once

#include <span>

namespace terngrad::cpu {

/// The state of one batch norm (see BatchNormSpec).
struct MovingStatistics {
  std::span<float> mean;
  std::span<float> variance;
  float* weight = nullptr;
};

/// weight <- decay weight + (1 - decay), then mean <- mean + ((1 - decay) / weight) (batch_mean - mean), and so for the
/// variance; a weight of 0 makes them the batch's exactly. Computed in double, each result rounded to float once, the
/// new weight used before its rounding; bit-equal on every machine. If a number of the batch is not finite nothing
/// changes: an average would never be rid of it.
/// @param decay   in [0, 1)
/// @param batch_mean, batch_variance  as long as the statistics
void update_moving_statistics(float decay, std::span<const float> batch_mean, std::span<const float> batch_variance,
                              const MovingStatistics& statistics);

}  // namespace terngrad::cpu
