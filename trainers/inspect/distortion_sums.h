// CodecDistortion: the error between encoded and decoded gradients.
#pragma once

#include <optional>
#include <span>

namespace terngrad {

/// Distortion of a tensor, or of several tensors, steps and workers as one vector. h is the encoded vector: the
/// gradient g, or g compensated by the memory; d is the decoded message. Ratios with |h| = 0 are NaN.
struct CodecDistortion {
  double code_bits = 0;      // per element, payloads only
  double message_bits = 0;   // per element, with scalers, headers, checksums, padding; of a tensor without message
                             // header
  double cosine = 0;         // h . d / (|h| |d|)
  double vnmse = 0;          // |d - h|^2 / |h|^2
  double kept_norm = 0;      // |d| / |h|
  double zero_fraction = 0;  // fraction of zeros in d
  double max_error = 0;      // maximum over tensors of max |d - h| / max |h|
  std::optional<double> mean_vnmse = {};     // several workers: that of their mean, as an exchange computes it
  std::optional<double> residual_norm = {};  // with a memory: |kept| / |g| after the last step; kEf21: |g - e| / |g|
};

/// Sums over elements, steps and workers for CodecDistortion.
struct DistortionSums {
  double elements = 0;
  double code_bytes = 0, record_bytes = 0;  // payloads; payloads with scalers, records and padding
  double power = 0, sent_power = 0, product = 0, noise = 0;
  double zeros = 0;
  double max_error = 0;  // CodecDistortion::max_error
  double mean_power = 0, mean_noise = 0;
  double gradient_power = 0, residual_power = 0;  // last step only

  /// Adds a tensor of a worker, in the order of elements. @param encoded, decoded  h and d, of equal length
  void add(std::span<const float> encoded, std::span<const float> decoded);
  DistortionSums& operator+=(const DistortionSums& other);
  /// All fields except mean_vnmse and residual_norm. @param message_bytes  bytes sent, headers included
  CodecDistortion distortion(double message_bytes) const;
};

/// The ratio; NaN if both are 0, infinite if only the denominator is.
double ratio_of(double numerator, double denominator);
/// sqrt(numerator / denominator); NaN if the denominator is 0.
double root_of_ratio(double numerator, double denominator);
/// Sum of squares, in the order of elements.
double power_of(std::span<const float> values);

}  // namespace terngrad
