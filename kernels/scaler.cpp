#include "kernels/scaler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/ternarize.h"

namespace terngrad {

float canonical_nan() { return std::bit_cast<float>(0x7fc00000u); }

double standard_deviation(const Statistics& statistics, std::int64_t count) {
  if (count == 0) return 0;
  const auto n = static_cast<double>(count);
  const double mean_square = statistics.sum_squares / n;
  const double mean = statistics.sum / n;
  const double variance = std::max(0.0, mean_square - mean * mean);
  // Below this the difference is rounding error of equal elements, not spread.
  return variance < 0x1p-40 * mean_square ? 0.0 : std::sqrt(variance);
}

float local_scaler(const Statistics& statistics, std::int64_t count, double clip_factor, ScalerRule rule) {
  if (statistics.is_nonfinite()) return canonical_nan();
  float scaler = statistics.max_abs();
  if (clip_factor > 0) {
    const double sigma = standard_deviation(statistics, count);
    const auto clipped = static_cast<float>(clip_factor * sigma);
    if (rule == ScalerRule::kOriginal) {
      scaler = clipped;
    } else if (sigma > 0) {
      scaler = std::min(scaler, clipped);
    }
  }
  if (scaler < kMinScaler) return 0.0f;
  return scaler > kMaxScaler ? canonical_nan() : scaler;
}

}  // namespace terngrad
