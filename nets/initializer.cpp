#include "nets/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "kernels/random/philox.h"

namespace terngrad {
namespace {

/// Horner's rule, the constant coefficient first.
double polynomial(const std::array<double, 8>& coefficients, double x) {
  double value = coefficients[7];
  for (std::size_t i = 7; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

/// Natural logarithm of a normal positive number to about 1e-16 relative for arguments away from 1 (here below 0.08):
/// x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)) by its series. The C library's log may
/// differ in the last bit from machine to machine.
double portable_log(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double t = (mantissa - 1) / (mantissa + 1);  // |t| < 0.172: 11 terms leave less than 1e-17
  const double t2 = t * t;
  double series = 0;
  for (int power = 21; power >= 1; power -= 2) series = series * t2 + 1.0 / power;
  return exponent * kLn2 + 2 * t * series;
}

/// AS 241, PPND16: the standard normal quantile of p for q = p - 1/2 with |q| <= 0.425.
double central_quantile(double q) {
  constexpr std::array<double, 8> kA = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                        1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                        3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr std::array<double, 8> kB = {1.0,
                                        4.2313330701600911252e1,
                                        6.8718700749205790830e2,
                                        5.3941960214247511077e3,
                                        2.1213794301586595867e4,
                                        3.9307895800092710610e4,
                                        2.8729085735721942674e4,
                                        5.2264952788528545610e3};
  const double r = 0.180625 - q * q;
  return q * polynomial(kA, r) / polynomial(kB, r);
}

/// AS 241, PPND16: minus the quantile of a lower tail probability between exp(-25) and 0.075.
double tail_quantile(double tail) {
  constexpr std::array<double, 8> kC = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                        3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                        2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr std::array<double, 8> kD = {1.0,
                                        2.05319162663775882187e0,
                                        1.67638483018380384940e0,
                                        6.89767334985100004550e-1,
                                        1.48103976427480074590e-1,
                                        1.51986665636164571966e-2,
                                        5.47593808499534494600e-4,
                                        1.05075007164441684324e-9};
  const double r = std::sqrt(-portable_log(tail)) - 1.6;
  return polynomial(kC, r) / polynomial(kD, r);
}

}  // namespace

double truncated_normal_quantile(double probability) {
  constexpr double kMass = 0.95449973610364158560;  // P(|X| < 2)
  const double q = (probability - 0.5) * kMass;
  if (std::abs(q) <= 0.425) return central_quantile(q);
  const double distance = std::min(tail_quantile(0.5 - std::abs(q)), 2.0);
  return q < 0 ? -distance : distance;
}

namespace {

/// The initial value for a probability in (0, 1).
double value_of(const Initializer& initializer, double probability) {
  switch (initializer.kind) {
    case Initializer::Kind::kTruncatedNormal:
      return double{initializer.value} * truncated_normal_quantile(probability);
    case Initializer::Kind::kUniform:
      return double{initializer.value} * (2 * probability - 1);
    default:
      throw std::logic_error("[fill_tensor] an initializer that depends on fans has no numbers yet");
  }
}

}  // namespace

void fill_tensor(const Initializer& initializer, std::uint64_t seed, int tensor_index, std::span<float> values) {
  if (initializer.kind == Initializer::Kind::kConstant) {
    std::fill(values.begin(), values.end(), initializer.value);
    return;
  }
  const DrawKey key{.seed = seed,
                    .step = 0,
                    .worker = static_cast<std::uint32_t>(tensor_index),
                    .purpose = DrawPurpose::kInitializer};
  std::array<std::uint32_t, 4> block{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 4 == 0) block = draw_block(key, i / 4);
    const double probability = (block[i % 4] + 0.5) * 0x1p-32;
    values[i] = static_cast<float>(value_of(initializer, probability));
  }
}

}  // namespace terngrad
