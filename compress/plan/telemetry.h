// Telemetry: what compression did to a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace terngrad {

/// One worker's tensor, compared with what its message says.
struct TensorTelemetry {
  double norm = 0;                // |g|, Euclidean
  double max_abs = 0;             // largest |g|
  double scaler = 0;              // largest magnitude that was sent: s where codes were drawn
  double zero_fraction = 0;       // elements sent as 0
  double clip_fraction = 0;       // elements with |g| > scaler
  double kept_norm = 0;           // |clip(g, scaler)| / |g|: what clipping leaves of the length; 1 if |g| is 0
  double clip_angle_degrees = 0;  // between g and clip(g, scaler); 0 if |g| is 0, NaN if g is not finite
  double snr_db = 0;              // 10 log10(|g|^2 / |g - sent|^2); infinite if nothing was lost
  double error_norm = 0;          // |g - sent|
  /// With a memory, whose compensated gradient is what stands for g above: error_norm over the norm of the gradient
  /// itself. Of error feedback, what is kept for the next step.
  std::optional<double> residual_norm = {};
};

/// @param gradient  g [n], as it was encoded (weight decay included)
/// @param sent      its decoded message [n]
/// @param scaler    s; 0 if the codec has none: then nothing counts as clipped
/// @throws InvalidArgument if lengths differ. Sums in float64, in order of elements
TensorTelemetry compare_with_sent(std::span<const float> gradient, std::span<const float> sent, double scaler);

/// |g|, Euclidean; the sum in float64, in order of elements.
double norm_of(std::span<const float> values);

}  // namespace terngrad
