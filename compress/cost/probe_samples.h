// ProbeSamples: what the repetitions of a measured exchange took.
#pragma once

#include <array>
#include <vector>

#include "compress/cost/spread.h"

namespace terngrad {

/// Seconds of the three parts of an exchange, of each repetition.
class ProbeSamples {
 public:
  using Parts = std::array<double, 3>;

  /// Samples after which an exchange that is beaten is not measured any further.
  static constexpr int kEnoughOfBeaten = 2;

  void add(const Parts& parts) { samples_.push_back(parts); }
  bool empty() const { return samples_.empty(); }
  int count() const { return static_cast<int>(samples_.size()); }

  /// Of each part the median of its own. @throws InvalidArgument if there is no sample
  Parts medians() const;
  /// Of each sample the sum of its parts.
  std::vector<double> sums() const;
  /// Whether there are kEnoughOfBeaten samples or more, and all of them, with that many seconds on top, are above
  /// `seconds`.
  bool are_beaten(double seconds, double on_top) const;

 private:
  std::vector<Parts> samples_;
};

/// The sum of the parts.
double sum_of(const ProbeSamples::Parts& parts);

}  // namespace terngrad
