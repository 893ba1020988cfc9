// Local scaler of one slice, shared by both backends; documented in kernels/statistics/scaler.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/common/host_device.h"

namespace terngrad::common {

TERNGRAD_HOST_DEVICE inline double standard_deviation(const Statistics& statistics, std::int64_t count) {
  if (count == 0) return 0;
  const auto n = static_cast<double>(count);
  const double mean_square = statistics.sum_squares / n;
  const double mean = statistics.sum / n;
  const double spread = mean_square - mean * mean;
  const double variance = spread > 0 ? spread : 0.0;
  // Below this threshold the difference is rounding error of equal elements.
  return variance < 0x1p-40 * mean_square ? 0.0 : std::sqrt(variance);
}

/// The smallest power of two that is at least a finite magnitude >= kMinScaler.
/// @param bits  bit pattern of the magnitude
TERNGRAD_HOST_DEVICE inline float power_of_two_above(std::uint32_t bits) {
  constexpr std::uint32_t kMantissa = 0x7fffffu;
  const std::uint32_t power = (bits & kMantissa) == 0 ? bits : (bits & ~kMantissa) + kMantissa + 1;
  float result;
  memcpy(&result, &power, sizeof(result));
  return result;
}

/// Scaler for the rules kPowerOfTwo, kMaxOver, kL2 and kRms, before the limits apply.
/// @param max_abs  statistics.max_abs()
TERNGRAD_HOST_DEVICE inline float norm_scaler(const Statistics& statistics, float max_abs, std::int64_t count,
                                              double factor, ScalerRule rule) {
  if (count == 0) return 0;
  if (rule == ScalerRule::kPowerOfTwo) return max_abs < kMinScaler ? 0.0f : power_of_two_above(statistics.max_bits);
  if (rule == ScalerRule::kMaxOver) return static_cast<float>(static_cast<double>(max_abs) / factor);
  if (rule == ScalerRule::kL2) return static_cast<float>(std::sqrt(statistics.sum_squares));
  return static_cast<float>(factor * std::sqrt(statistics.sum_squares / static_cast<double>(count)));
}

/// True for the rules for signs.
TERNGRAD_HOST_DEVICE inline bool is_of_signs(ScalerRule rule) {
  return rule == ScalerRule::kMeanMagnitude || rule == ScalerRule::kRootMeanSquare ||
         rule == ScalerRule::kSquaresOverMagnitudes || rule == ScalerRule::kOne;
}

/// Scaler for the sign rules, before the upper limit applies.
TERNGRAD_HOST_DEVICE inline float sign_scaler(const Statistics& statistics, float max_abs, std::int64_t count,
                                              ScalerRule rule) {
  if (rule == ScalerRule::kOne) return 1;
  if (max_abs < kMinScaler) return 0;
  const auto n = static_cast<double>(count);
  if (rule == ScalerRule::kMeanMagnitude) return static_cast<float>(statistics.sum / n);
  if (rule == ScalerRule::kRootMeanSquare) return static_cast<float>(std::sqrt(statistics.sum_squares / n));
  return static_cast<float>(statistics.sum_squares / statistics.sum);
}

/// @param max_abs, nan  statistics.max_abs() and canonical_nan(), which each backend converts from bits in its own way
TERNGRAD_HOST_DEVICE inline float local_scaler(const Statistics& statistics, float max_abs, float nan,
                                               std::int64_t count, double clip_factor, ScalerRule rule) {
  if (statistics.max_bits >= 0x7f800000u) return nan;
  if (is_of_signs(rule)) {
    const float scaler = sign_scaler(statistics, max_abs, count, rule);
    return scaler > kMaxScaler ? nan : scaler;
  }
  float scaler = max_abs;
  if (rule != ScalerRule::kPaper && rule != ScalerRule::kOriginal) {
    scaler = norm_scaler(statistics, max_abs, count, clip_factor, rule);
  } else if (clip_factor > 0) {
    const double sigma = common::standard_deviation(statistics, count);
    const auto clipped = static_cast<float>(clip_factor * sigma);
    const bool clips = sigma > 0 && clipped < scaler;
    if (rule == ScalerRule::kOriginal || clips) scaler = clipped;
  }
  if (scaler < kMinScaler) return 0.0f;
  return scaler > kMaxScaler ? nan : scaler;
}

}  // namespace terngrad::common
