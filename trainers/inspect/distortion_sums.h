// How far what was sent is from what was to be sent.
#pragma once

#include <optional>
#include <span>

namespace terngrad {

/// Of a tensor, or of several as if they were one vector; likewise over steps and workers. h is what is encoded: the
/// gradient g, or what a memory makes of it; d the decoded message. Where all h are 0, what is divided by |h| is NaN.
struct CodecDistortion {
  double code_bits = 0;      // per element: payloads alone
  double message_bits = 0;   // per element: with scalers, headers, checksums and padding; of a single tensor without
                             // the message's own header
  double cosine = 0;         // h . d / (|h| |d|)
  double snr_db = 0;         // 10 log10(|h|^2 / |d - h|^2); infinite if nothing is lost
  double kept_norm = 0;      // |d| / |h|
  double zero_fraction = 0;  // of d
  double max_error = 0;      // the largest of max |d - h| / max |h| of a tensor
  std::optional<double> mean_snr_db = {};    // of several workers: as snr_db, of the mean as an exchange makes it
  std::optional<double> residual_norm = {};  // with a memory: |kept| / |g| after the last step
};

/// What elements add up to, over steps and workers.
struct DistortionSums {
  double elements = 0;
  double code_bytes = 0, record_bytes = 0;  // payloads; with scalers, records and padding
  double power = 0, sent_power = 0, product = 0, noise = 0;
  double zeros = 0;
  double max_error = 0;  // CodecDistortion::max_error
  double mean_power = 0, mean_noise = 0;
  double gradient_power = 0, residual_power = 0;  // of the last step

  /// Adds a tensor of a worker. Sums in order of elements. @param encoded, decoded  h and d, of one length
  void add(std::span<const float> encoded, std::span<const float> decoded);
  DistortionSums& operator+=(const DistortionSums& other);
  /// All except for means and what is kept. @param message_bytes  of what was sent, headers included
  CodecDistortion distortion(double message_bytes) const;
};

/// 10 log10(power / noise); infinite without noise, NaN if both are 0.
double decibels(double power, double noise);
/// sqrt(numerator / denominator); NaN over 0.
double root_of_ratio(double numerator, double denominator);
/// Sum of squares, in order of elements.
double power_of(std::span<const float> values);

}  // namespace terngrad
