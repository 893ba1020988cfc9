// Combination of one scaler across workers, for both backends.
#pragma once

#include <cstdint>

#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/common/host_device.h"

namespace terngrad::common {

/// True if a scaler marks a non-finite segment.
TERNGRAD_HOST_DEVICE inline bool is_flag(float scaler) { return scaler != scaler; }

/// Writes all outputs for scaler `s` except the report.
/// @param first  out: the first worker whose segment is not finite; unchanged if there is none
/// @returns the number of such workers
TERNGRAD_HOST_DEVICE inline int share_one(const ScalerSharingTask& task, std::int64_t s, int& first) {
  int num_flagged = 0;
  float max = 0;
  double sum = 0;
  for (int worker = 0; worker < task.num_workers; ++worker) {
    const std::int64_t at = worker * task.num_scalers + s;
    const float local = task.local[at];
    const bool flagged = is_flag(local);
    const float own = flagged ? 0.0f : local;
    task.own[at] = own;
    if (flagged && num_flagged++ == 0) first = worker;
    if (own > max) max = own;
    sum += static_cast<double>(own);
  }
  const ScalerCombination combination = task.places[s].combination;
  const float shared =
      combination == ScalerCombination::kMean ? static_cast<float>(sum / static_cast<double>(task.num_workers)) : max;
  task.shared[s] = shared;
  task.scales[s] = shared / static_cast<float>(task.max_sum);
  for (int i = 0; i < task.num_local_workers; ++i) {
    const std::int64_t at = (task.first_local_worker + i) * task.num_scalers + s;
    const float drawn_with = combination == ScalerCombination::kOwn ? task.own[at] : shared;
    task.drawn_with[i * task.num_scalers + s] = is_flag(task.local[at]) ? 0.0f : drawn_with;
  }
  return num_flagged;
}

}  // namespace terngrad::common
