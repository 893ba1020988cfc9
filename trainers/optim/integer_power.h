// integer_power: powers with integer exponents, bit-equal on every machine.
#pragma once

#include <cstdint>

namespace terngrad {

/// base^exponent by repeated squaring, in double. Only O(log exponent) multiplications round, and they round the same
/// way on every machine, unlike a library's pow.
/// @param exponent  0 or more; any base to the power 0 is 1
constexpr double integer_power(double base, std::uint64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

}  // namespace terngrad
