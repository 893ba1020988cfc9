// What is measured of natural compression.
#pragma once

#include <vector>

#include "bench/quantize_bench.h"
#include "kernels/codes/exponents.h"

namespace terngrad::bench {

/// Each checks that codes stand for a power next to the element, on 65,536 elements spread over the gradient.
std::vector<QuantizeBench<ExponentOptions>> exponent_benches();

}  // namespace terngrad::bench
