// Scaler combination on a GPU, documented in kernels/statistics/scaler_sharing.h.
#pragma once

#include "kernels/statistics/scaler_sharing.h"

namespace terngrad::cuda {

void combine_scalers(const ScalerSharingTask& task, const Stream& stream);
void flag_whole_segments(float* scalers, std::int64_t num_rows, const std::int64_t* first_scaler,
                         std::int64_t num_segments, std::int64_t num_scalers, const Stream& stream);

}  // namespace terngrad::cuda
