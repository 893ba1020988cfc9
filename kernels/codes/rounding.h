// Rounding modes of quantizing kernels.
#pragma once

#include <cstdint>
#include <string>

namespace terngrad {

/// Rounding of a number between two codes.
enum class Rounding : std::uint8_t {
  kStochastic,  // unbiased: up or down by a random draw
  kNearest,     // deterministic
  kStratified,  // as kStochastic for each worker, with the draws of all workers spread evenly (kernels/random/strata.h)
};

/// The name in codec specs.
inline std::string to_string(Rounding rounding) {
  return rounding == Rounding::kStochastic ? "stochastic" : rounding == Rounding::kNearest ? "nearest" : "stratified";
}

}  // namespace terngrad
