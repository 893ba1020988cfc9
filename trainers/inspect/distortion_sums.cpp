#include "trainers/inspect/distortion_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace terngrad {

void DistortionSums::add(std::span<const float> encoded, std::span<const float> decoded) {
  double largest = 0, largest_error = 0;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const double h = encoded[i], d = decoded[i];
    power += h * h;
    sent_power += d * d;
    product += h * d;
    noise += (d - h) * (d - h);
    zeros += d == 0 ? 1 : 0;
    largest = std::max(largest, std::fabs(h));
    largest_error = std::max(largest_error, std::fabs(d - h));
  }
  elements += static_cast<double>(encoded.size());
  if (largest > 0) max_error = std::max(max_error, largest_error / largest);
}

DistortionSums& DistortionSums::operator+=(const DistortionSums& other) {
  elements += other.elements;
  code_bytes += other.code_bytes;
  record_bytes += other.record_bytes;
  power += other.power;
  sent_power += other.sent_power;
  product += other.product;
  noise += other.noise;
  zeros += other.zeros;
  max_error = std::max(max_error, other.max_error);
  mean_power += other.mean_power;
  mean_noise += other.mean_noise;
  gradient_power += other.gradient_power;
  residual_power += other.residual_power;
  return *this;
}

CodecDistortion DistortionSums::distortion(double message_bytes) const {
  return {.code_bits = 8 * code_bytes / elements,
          .message_bits = 8 * message_bytes / elements,
          .cosine = power * sent_power > 0 ? product / std::sqrt(power * sent_power)
                                           : std::numeric_limits<double>::quiet_NaN(),
          .vnmse = ratio_of(noise, power),
          .kept_norm = root_of_ratio(sent_power, power),
          .zero_fraction = zeros / elements,
          .max_error = max_error};
}

double ratio_of(double numerator, double denominator) {
  if (denominator != 0) return numerator / denominator;
  return numerator == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
}

double root_of_ratio(double numerator, double denominator) {
  return denominator == 0 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(numerator / denominator);
}

double power_of(std::span<const float> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

}  // namespace terngrad
