#include "trainers/io/histogram_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

namespace terngrad {
namespace {

/// Three decades of both signs are 146 buckets. On a linear axis, smaller values fall into one column of a plot.
constexpr double kSmallest = 1e-3;  // fraction of the largest magnitude

double rounded(double limit) { return std::strtod(fmt::format("{:.4e}", limit).c_str(), nullptr); }

}  // namespace

nlohmann::ordered_json histogram_json(const Histogram& histogram) {
  const double largest = std::fmax(std::fabs(histogram.min), std::fabs(histogram.max));
  const Histogram merged = merge_small_buckets(histogram, kSmallest * largest);
  std::vector<double> limits;
  for (const double limit : merged.limits) limits.push_back(rounded(limit));
  return {{"min", merged.min},           {"max", merged.max},
          {"num", merged.num},           {"nonfinite", merged.num_nonfinite},
          {"sum", merged.sum},           {"sum_squares", merged.sum_squares},
          {"limits", std::move(limits)}, {"counts", merged.counts}};
}

}  // namespace terngrad
