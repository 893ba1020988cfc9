// Mean magnitudes of the two signs of a group, shared by both backends; documented in
// kernels/statistics/signed_statistics.h.
#pragma once

#include <cstdint>

#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/signed_statistics.h"
#include "kernels/tensor/common/host_device.h"

namespace terngrad::common {

/// Mean of one sign, before the upper limit applies.
/// @param max_bits  bit pattern of the side's largest magnitude; below kMinScaler the mean is 0
TERNGRAD_HOST_DEVICE inline float side_mean(double sum, std::uint64_t count, std::uint32_t max_bits) {
  constexpr std::uint32_t kMinScalerBits = 41u << 23;  // 2^-86
  if (max_bits < kMinScalerBits) return 0;
  return static_cast<float>(sum / static_cast<double>(count));
}

/// Writes a- and a+ of a group of `count` elements. @param nan  canonical_nan()
TERNGRAD_HOST_DEVICE inline void write_side_means(const SignedStatistics& statistics, std::int64_t count, float nan,
                                                  float* out) {
  const std::uint64_t num_positive = static_cast<std::uint64_t>(count) - statistics.num_negative;
  const float negative = side_mean(statistics.sum_negative, statistics.num_negative, statistics.max_negative);
  const float positive = side_mean(statistics.sum_positive, num_positive, statistics.max_positive);
  const bool is_finite = statistics.max_positive < 0x7f800000u && statistics.max_negative < 0x7f800000u;
  const bool is_right = is_finite && negative <= kMaxScaler && positive <= kMaxScaler;
  out[0] = is_right ? negative : nan;
  out[1] = is_right ? positive : nan;
}

}  // namespace terngrad::common
