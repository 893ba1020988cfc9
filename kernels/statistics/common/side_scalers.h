// Scaler of one side of a slice, for both backends; documented in kernels/statistics/side_scalers.h.
#pragma once

#include <cstdint>

#include "kernels/statistics/common/local_scaler.h"

namespace terngrad::common {

/// @param max_bits, max_abs  largest magnitude of the side, as bit pattern and as number
TERNGRAD_HOST_DEVICE inline float side_scaler(Statistics statistics, std::uint32_t max_bits, float max_abs, float nan,
                                              std::int64_t count, double clip_factor, ScalerRule rule) {
  statistics.max_bits = max_bits;
  return local_scaler(statistics, max_abs, nan, count, clip_factor, rule);
}

}  // namespace terngrad::common
