// integer_power: powers with whole exponents, the same bits on every machine.
#pragma once

#include <cstdint>

namespace terngrad {

/// base^exponent by squaring, in double: the roundings are those of the multiplications, which are the same everywhere
/// (a library's pow is not), and few for any exponent.
/// @param exponent  0 or more; any base to the power 0 is 1
constexpr double integer_power(double base, std::uint64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

}  // namespace terngrad
