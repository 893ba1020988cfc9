// Spread: how far repeated measurements of one thing lie apart.
#pragma once

#include <vector>

namespace terngrad {

/// From the lower to the upper end of some numbers.
struct Spread {
  double low = 0;
  double high = 0;

  bool overlaps(const Spread& other) const { return low <= other.high && other.low <= high; }
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// The middle sample; of an even number of them the upper of the two. @throws InvalidArgument if there is none
double median_of(std::vector<double> samples);

/// The middle half of the samples: without floor((n - 1) / 4) of them at each end, so that one disturbance among five
/// does not count. Of up to four all count. @throws InvalidArgument if there is none
Spread middle_half(std::vector<double> samples);

}  // namespace terngrad
