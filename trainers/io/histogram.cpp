#include "trainers/io/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace terngrad {
namespace {

constexpr double kFirstLimit = 1e-12;

std::vector<double> compute_limits() {
  std::vector<double> positive;
  for (double limit = kFirstLimit; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  limits.reserve(2 * positive.size() + 1);
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

/// Finds a value's bucket by its leading bits (sign, exponent, 5 of the mantissa): the values of such a cell differ by
/// 3 % at most and neighbouring limits by 10 %, so at most one limit lies in a cell. Much faster than a binary search.
class BucketFinder {
 public:
  BucketFinder() : first_(std::size_t{1} << (32 - kDropped)) {
    for (std::uint32_t cell = 0; cell < first_.size(); ++cell) {
      // The smallest negative value of a cell has all low bits set.
      const std::uint32_t low_bits = cell >= first_.size() / 2 ? (1u << kDropped) - 1 : 0;
      const auto min = static_cast<double>(std::bit_cast<float>(cell << kDropped | low_bits));
      first_[cell] = std::isfinite(min) ? bucket_by_search(min) : 0;
    }
  }

  std::size_t bucket_of(float value) const {
    const std::span<const double> limits = histogram_limits();
    std::size_t bucket = first_[std::bit_cast<std::uint32_t>(value) >> kDropped];
    while (limits[bucket] <= static_cast<double>(value)) ++bucket;
    return bucket;
  }

 private:
  static constexpr int kDropped = 18;
  static std::size_t bucket_by_search(double value) {
    const std::span<const double> limits = histogram_limits();
    return static_cast<std::size_t>(std::ranges::upper_bound(limits, value) - limits.begin());
  }
  std::vector<std::size_t> first_;  // bucket of the smallest value of each cell
};

/// Writes the buckets to `histogram` as Histogram describes: without empty ends and with merged gaps.
/// @param counts  [limits.size()]
void keep_buckets_in_use(std::span<const double> limits, std::span<const std::int64_t> counts, Histogram& histogram) {
  bool is_gap = false;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      is_gap = !histogram.counts.empty();
      continue;
    }
    if (is_gap) {
      histogram.limits.push_back(limits[i - 1]);
      histogram.counts.push_back(0);
      is_gap = false;
    }
    histogram.limits.push_back(limits[i]);
    histogram.counts.push_back(counts[i]);
  }
}

}  // namespace

std::span<const double> histogram_limits() {
  static const std::vector<double> limits = compute_limits();
  return limits;
}

Histogram make_histogram(std::span<const float> values) {
  static const BucketFinder finder;
  std::vector<std::int64_t> counts(histogram_limits().size());
  Histogram histogram;
  histogram.min = std::numeric_limits<double>::infinity();
  histogram.max = -std::numeric_limits<double>::infinity();
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++histogram.num_nonfinite;
      continue;
    }
    const auto x = static_cast<double>(value);
    histogram.min = std::min(histogram.min, x);
    histogram.max = std::max(histogram.max, x);
    histogram.sum += x;
    histogram.sum_squares += x * x;
    ++counts[finder.bucket_of(value)];
  }
  histogram.num = static_cast<std::int64_t>(values.size()) - histogram.num_nonfinite;
  if (histogram.num == 0) histogram.min = histogram.max = 0;
  keep_buckets_in_use(histogram_limits(), counts, histogram);
  return histogram;
}

Histogram merge_small_buckets(const Histogram& histogram, double smallest) {
  std::vector<double> limits;
  std::vector<std::int64_t> counts;
  std::int64_t count = 0;
  std::size_t bucket = 0;
  for (const double limit : histogram_limits()) {
    if (bucket < histogram.limits.size() && histogram.limits[bucket] == limit) count += histogram.counts[bucket++];
    if (std::fabs(limit) < smallest && limit != 0 && limit != kFirstLimit) continue;
    limits.push_back(limit);
    counts.push_back(std::exchange(count, 0));
  }
  Histogram merged = histogram;
  merged.limits.clear();
  merged.counts.clear();
  keep_buckets_in_use(limits, counts, merged);
  return merged;
}

}  // namespace terngrad
