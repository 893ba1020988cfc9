#include "compress/plan/telemetry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Sums over a gradient g, with clipped elements separate; clipping reduces the magnitude of such an element by
/// e = |g| - s.
struct ClipSums {
  double unclipped_squares = 0;  // sum of g^2 over |g| <= s
  double clipped = 0;            // number of |g| > s
  double excess = 0;             // sum of e
  double excess_squares = 0;     // sum of e^2
};

/// Angle between g and its clipped g~ = clip(g, s), in degrees. With g = g~ + r, where r is 0 or e with the sign of g,
///
///   tan angle = |g x g~| / <g, g~>,   |g x g~|^2 = |r x g~|^2 = |r|^2 |g~|^2 - <r, g~>^2
///
/// so a small angle is computed from small sums; an arc cosine would lose half of the digits.
double clip_angle_degrees(const ClipSums& sums, double scaler) {
  constexpr double kDegreesPerRadian = 180 / std::numbers::pi;
  // Elements that are clipped by the same amount cause no rotation among themselves.
  const double spread = std::max(0.0, sums.clipped * sums.excess_squares - sums.excess * sums.excess);
  const double cross = std::sqrt(sums.excess_squares * sums.unclipped_squares + scaler * scaler * spread);
  const double dot = sums.unclipped_squares + scaler * (sums.clipped * scaler + sums.excess);
  return std::atan2(cross, dot) * kDegreesPerRadian;
}

}  // namespace

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

TensorTelemetry compare_with_sent(std::span<const float> gradient, std::span<const float> sent, double scaler) {
  TERNGRAD_REQUIRE(gradient.size() == sent.size(), "[telemetry] lengths differ: ", gradient.size(), " and ",
                   sent.size());
  TensorTelemetry result;
  double squares = 0;
  double clipped_squares = 0;
  double error_squares = 0;
  ClipSums clip;
  std::int64_t zeros = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto g = static_cast<double>(gradient[i]);
    const auto q = static_cast<double>(sent[i]);
    const double magnitude = std::fabs(g);
    const double cut = scaler > 0 ? std::min(magnitude, scaler) : magnitude;
    squares += g * g;
    clipped_squares += cut * cut;
    error_squares += (g - q) * (g - q);
    zeros += q == 0;
    if (magnitude > cut) {
      const double excess = magnitude - cut;
      ++clip.clipped;
      clip.excess += excess;
      clip.excess_squares += excess * excess;
    } else {
      clip.unclipped_squares += g * g;
    }
    result.max_abs = std::max(result.max_abs, magnitude);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(gradient.size(), 1));
  result.norm = std::sqrt(squares);
  result.scaler = scaler;
  result.zero_fraction = static_cast<double>(zeros) / n;
  result.clip_fraction = clip.clipped / n;
  result.kept_norm = squares > 0 ? std::sqrt(clipped_squares / squares) : 1;
  result.clip_angle_degrees =
      std::isfinite(squares) ? clip_angle_degrees(clip, scaler) : std::numeric_limits<double>::quiet_NaN();
  result.error_norm = std::sqrt(error_squares);
  result.snr_db =
      error_squares > 0 ? 10 * std::log10(squares / error_squares) : std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace terngrad
