// Initial parameters: constants, truncated normal and uniform draws, the same bits on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/layout.h"
#include "nets/layer_spec.h"

namespace terngrad {

/// The quantile function of the standard normal distribution cut at two standard deviations: the x in (-2, 2) with
/// P(X < x | |X| < 2) = probability. It is what "redraw beyond 2 std" gives, without the redraws. Wichura, "Algorithm
/// AS 241", Applied Statistics 37 (1988), PPND16, with a logarithm of our own: additions, multiplications, divisions
/// and square roots only, so every IEEE 754 machine gives the same bits.
/// @param probability  in (0, 1)
double truncated_normal_quantile(double probability);

/// Fills one tensor: a constant, stddev * truncated_normal_quantile(p), or limit * (2 p - 1), rounded to float once,
/// with p = (r + 1/2) / 2^32 and r draw32 number `position` of the stream {seed, step 0, worker = tensor_index,
/// DrawPurpose::kInitializer}. Draws depend on seed, tensor index and position only; bitwise equal on every machine.
/// @param initializer  kConstant, kTruncatedNormal or kUniform; the others depend on fans, which plan_net knows
/// @param values       [n] out; n = 0 writes nothing
/// @throws std::logic_error for an initializer that depends on fans
void fill_tensor(const Initializer& initializer, std::uint64_t seed, int tensor_index, std::span<float> values);

}  // namespace terngrad
