// Rounding modes of quantizing kernels.
#pragma once

#include <cstdint>

namespace terngrad {

/// Rounding of a number between two codes.
enum class Rounding : std::uint8_t {
  kStochastic,  // unbiased: up or down by a random draw
  kNearest,     // deterministic
};

}  // namespace terngrad
