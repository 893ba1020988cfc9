// What is measured of FP8.
#pragma once

#include <vector>

#include "bench/quantize_bench.h"
#include "kernels/codes/fp8.h"

namespace terngrad::bench {

/// Each checks that codes stand for a number next to the element, or for the nearest if they are rounded to it, on
/// 65,536 elements spread over the gradient.
std::vector<QuantizeBench<Fp8Options>> fp8_benches();

}  // namespace terngrad::bench
