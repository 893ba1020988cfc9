// What benchmarks of natural compression have in common.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/exponents.h"

namespace terngrad::bench {

/// Whether the codes of a gradient with one scaler stand for a power next to the element, on 65,536 elements spread
/// over it.
bool exponents_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const ExponentOptions& options,
                         const float* gradient, float scaler);

}  // namespace terngrad::bench
