// What is measured of uniform levels.
#pragma once

#include <vector>

#include "bench/quantize_bench.h"
#include "kernels/codes/levels.h"

namespace terngrad::bench {

/// Each checks that codes are those that the definition gives, on 65,536 elements spread over the gradient.
std::vector<QuantizeBench<LevelOptions>> level_benches();

}  // namespace terngrad::bench
