// Histogram: how the values of a tensor are distributed, in the buckets that TensorBoard's tools use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terngrad {

/// Counts of finite values. The bucket before limits[0] begins at `min`; bucket i > 0 holds the values x with limits[i
/// - 1]
/// <= x < limits[i]. Empty buckets at both ends are left out, and a run of empty ones in between is one bucket.
struct Histogram {
  double min = 0;
  double max = 0;
  std::int64_t num = 0;  // finite values
  double sum = 0;        // of these, in float64 in order of elements
  double sum_squares = 0;
  std::vector<double> limits;        // ascending
  std::vector<std::int64_t> counts;  // [limits.size()]; their sum is num
  std::int64_t num_nonfinite = 0;    // NaN and infinities, which are in no bucket
};

/// The limits of all buckets, ascending: 0, and 1e-12 * 1.1^k below 1e20 with both signs (by repeated multiplication,
/// so that they have the same bits everywhere), and the largest double with both signs. The ones that TensorFlow's
/// histogram.cc (2015) chose and TensorBoard's tools have used since.
std::span<const double> histogram_limits();

/// The histogram of `values`. Empty input, or none that is finite, gives no buckets.
Histogram make_histogram(std::span<const float> values);

/// The same values in fewer buckets: limits of a magnitude below `smallest` are left out, except for 0 and 1e-12, whose
/// bucket keeps zeros apart. So there is one bucket of small negative values and one of small positive ones.
/// @param histogram  made by make_histogram
Histogram merge_small_buckets(const Histogram& histogram, double smallest);

}  // namespace terngrad
