#include "compress/cost/spread.h"

#include <algorithm>
#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {

double median_of(std::vector<double> samples) {
  TERNGRAD_REQUIRE(!samples.empty(), "[median_of] needs a sample");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

Spread middle_half(std::vector<double> samples) {
  TERNGRAD_REQUIRE(!samples.empty(), "[middle_half] needs a sample");
  std::ranges::sort(samples);
  const std::size_t left_out = (samples.size() - 1) / 4;
  return {samples[left_out], samples[samples.size() - 1 - left_out]};
}

}  // namespace terngrad
