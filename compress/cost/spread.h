// Spread: range of repeated measurements.
#pragma once

#include <vector>

namespace terngrad {

/// Lower and upper end of a range.
struct Spread {
  double low = 0;
  double high = 0;

  bool overlaps(const Spread& other) const { return low <= other.high && other.low <= high; }
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// Median; for an even number of samples the upper of the two middle ones. @throws InvalidArgument if there is none
double median_of(std::vector<double> samples);

/// Middle half of the samples: drops floor((n - 1) / 4) of them at each end, so that one outlier among five has no
/// effect. Up to four samples are all kept. @throws InvalidArgument if there is none
Spread middle_half(std::vector<double> samples);

}  // namespace terngrad
