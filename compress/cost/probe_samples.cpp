#include "compress/cost/probe_samples.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace terngrad {

ProbeSamples::Parts ProbeSamples::medians() const {
  Parts result{};
  std::vector<double> values(samples_.size());
  for (std::size_t part = 0; part < result.size(); ++part) {
    std::ranges::transform(samples_, values.begin(), [part](const Parts& parts) { return parts[part]; });
    result[part] = median_of(values);
  }
  return result;
}

std::vector<double> ProbeSamples::sums() const {
  std::vector<double> result(samples_.size());
  std::ranges::transform(samples_, result.begin(), sum_of);
  return result;
}

bool ProbeSamples::are_beaten(double seconds, double on_top) const {
  return count() >= kEnoughOfBeaten &&
         std::ranges::all_of(samples_, [&](const Parts& parts) { return sum_of(parts) + on_top > seconds; });
}

double sum_of(const ProbeSamples::Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

}  // namespace terngrad
