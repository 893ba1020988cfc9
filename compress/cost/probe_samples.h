// ProbeSamples: times of the repetitions of a measured exchange.
#pragma once

#include <array>
#include <vector>

#include "compress/cost/spread.h"

namespace terngrad {

/// Seconds of the three parts of an exchange (encode, check, decode) per repetition.
class ProbeSamples {
 public:
  using Parts = std::array<double, 3>;

  /// Number of samples after which a beaten exchange is not measured any further.
  static constexpr int kEnoughOfBeaten = 2;

  void add(const Parts& parts) { samples_.push_back(parts); }
  bool empty() const { return samples_.empty(); }
  int count() const { return static_cast<int>(samples_.size()); }

  /// Median of each part. @throws InvalidArgument if there is no sample
  Parts medians() const;
  /// Sum of the parts, per sample.
  std::vector<double> sums() const;
  /// True if there are at least kEnoughOfBeaten samples, and every sample plus `on_top` is above `seconds`.
  bool are_beaten(double seconds, double on_top) const;

 private:
  std::vector<Parts> samples_;
};

/// Sum of the three parts.
double sum_of(const ProbeSamples::Parts& parts);

}  // namespace terngrad
