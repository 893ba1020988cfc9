// How quantizing kernels round.
#pragma once

#include <cstdint>

namespace terngrad {

enum class Rounding : std::uint8_t {
  kStochastic,  // up or down by a draw, so that the expected value is the element
  kNearest,     // without draws
};

}  // namespace terngrad
