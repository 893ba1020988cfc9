#include "kernels/statistics/scaler_sharing.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/common/scaler_sharing.h"
#include "kernels/statistics/cuda/scaler_sharing.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {

void combine_scalers(const ScalerSharingTask& task, Stream& stream) {
  TERNGRAD_REQUIRE(task.num_workers >= 1 && task.first_local_worker >= 0 && task.num_local_workers >= 0 &&
                       task.first_local_worker + task.num_local_workers <= task.num_workers,
                   "[scaler_sharing] workers ", task.first_local_worker, " to ",
                   task.first_local_worker + task.num_local_workers, " are not among ", task.num_workers);
  if (stream.device().is_cuda()) return cuda::combine_scalers(task, stream);
  for (std::int64_t s = 0; s < task.num_scalers; ++s) {
    int first = 0;
    const int num_flagged = common::share_one(task, s, first);
    if (num_flagged == 0) continue;
    if (task.skip != nullptr) *task.skip = 1;
    if (task.stop_latched != nullptr && *task.stop_latched != 0) continue;
    const ScalerPlace& place = task.places[s];
    if (place.is_first != 0) task.report->count += static_cast<std::uint64_t>(num_flagged);
    const std::uint64_t at =
        std::uint64_t{place.segment} * static_cast<std::uint64_t>(task.num_workers) + static_cast<std::uint64_t>(first);
    task.report->inverted_first = std::max(task.report->inverted_first, ~at);
  }
}

void flag_whole_segments(float* scalers, std::int64_t num_rows, const std::int64_t* first_scaler,
                         std::int64_t num_segments, std::int64_t num_scalers, Stream& stream) {
  if (stream.device().is_cuda()) {
    return cuda::flag_whole_segments(scalers, num_rows, first_scaler, num_segments, num_scalers, stream);
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t segment = 0; segment < num_segments; ++segment) {
      float* begin = scalers + row * num_scalers + first_scaler[segment];
      float* end = scalers + row * num_scalers + first_scaler[segment + 1];
      if (std::any_of(begin, end, common::is_flag)) std::fill(begin, end, canonical_nan());
    }
  }
}

}  // namespace terngrad
