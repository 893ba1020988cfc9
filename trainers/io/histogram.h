// Histogram: distribution of a tensor's values, in the buckets of TensorBoard's tools.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terngrad {

/// Counts of finite values. Bucket 0 holds the values from `min` up to limits[0], bucket i > 0 the values x with
/// `limits[i-1] <= x < limits[i]`. Empty buckets at both ends are omitted, runs of empty buckets in between are merged.
struct Histogram {
  double min = 0;
  double max = 0;
  std::int64_t num = 0;  // number of finite values
  double sum = 0;        // sum of finite values, in float64 in the order of elements
  double sum_squares = 0;
  std::vector<double> limits;        // ascending
  std::vector<std::int64_t> counts;  // [limits.size()]; their sum is num
  std::int64_t num_nonfinite = 0;    // number of NaN and infinite values, which are in no bucket
};

/// The limits of all buckets, ascending: 0, and 1e-12 * 1.1^k below 1e20 with both signs (by repeated multiplication,
/// bit-equal on every machine), and the largest double with both signs. As in TensorFlow's histogram.cc (2015) and
/// TensorBoard's tools.
std::span<const double> histogram_limits();

/// The histogram of `values`. It has no buckets if no value is finite.
Histogram make_histogram(std::span<const float> values);

/// Merges buckets: limits of magnitude below `smallest` are removed, except for 0 and 1e-12, whose bucket holds the
/// zeros. So one bucket holds all small negative values and one all small positive values.
/// @param histogram  made by make_histogram
Histogram merge_small_buckets(const Histogram& histogram, double smallest);

}  // namespace terngrad
