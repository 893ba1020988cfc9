// What benchmarks of FP8 have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/codes/fp8.h"

namespace terngrad::bench {

/// "quantize_e4m3" or "quantize_e4m3_drawn".
std::string fp8_bench_name(const Fp8Options& options);

/// Whether the codes of a gradient with one scaler stand for a number next to the element, or for the nearest if they
/// are rounded to it, on 65,536 elements spread over it.
bool fp8_is_right(std::span<const std::uint8_t> payload, std::int64_t n, const Fp8Options& options,
                  const float* gradient, float scaler);

}  // namespace terngrad::bench
