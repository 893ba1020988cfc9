// Arithmetic of codebook scalers for both backends.
#pragma once

#include <cmath>

#include "kernels/statistics/codebook_scalers.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/common/host_device.h"

namespace terngrad::common {

/// Unit and scaler of a run.
struct CodebookRun {
  float unit = 0;
  float scaler = 0;
};

/// @param unit      local_scaler of the run: 0 if there is nothing to quantize, NaN if it is not finite
/// @param products  sum of fl(|x_i| v_k)
/// @param squares   sum of x_i^2 for kUnbiased, of v_k^2 for kLeast
TERNGRAD_HOST_DEVICE inline CodebookRun codebook_run(float unit, double products, double squares, CodebookScale scale,
                                                     float nan) {
  if (!(unit > 0)) return {unit, unit};
  const auto scaler = static_cast<float>(scale == CodebookScale::kUnbiased ? squares / products : products / squares);
  if (products < HUGE_VAL && scaler <= kMaxScaler) return {unit, scaler};
  return {nan, nan};
}

}  // namespace terngrad::common
