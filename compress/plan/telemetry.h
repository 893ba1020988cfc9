// Telemetry: compression error of a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace terngrad {

/// One worker's tensor g, compared with its decoded message.
struct TensorTelemetry {
  double norm = 0;                // |g|, Euclidean
  double max_abs = 0;             // largest |g|
  double scaler = 0;              // largest magnitude sent: s if codes were drawn
  double zero_fraction = 0;       // fraction of elements sent as 0
  double clip_fraction = 0;       // fraction of elements with |g| > scaler
  double kept_norm = 0;           // |clip(g, scaler)| / |g|: relative norm after clipping; 1 if |g| is 0
  double clip_angle_degrees = 0;  // between g and clip(g, scaler); 0 if |g| is 0, NaN if g is not finite
  double snr_db = 0;              // 10 log10(|g|^2 / |g - sent|^2); infinite if sent = g
  double error_norm = 0;          // |g - sent|
  /// With a memory, where g above is the compensated gradient: error_norm over the norm of the gradient itself. With
  /// error feedback, error_norm is the norm of the new residual.
  std::optional<double> residual_norm = {};
};

/// Sums in float64, in order of elements.
/// @param gradient  g [n], as encoded (weight decay included)
/// @param sent      its decoded message [n]
/// @param scaler    s; 0 if the codec has none: then no element counts as clipped
/// @throws InvalidArgument if lengths differ
TensorTelemetry compare_with_sent(std::span<const float> gradient, std::span<const float> sent, double scaler);

/// |g|, Euclidean; summed in float64, in order of elements.
double norm_of(std::span<const float> values);

}  // namespace terngrad
