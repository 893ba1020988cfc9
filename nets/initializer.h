// Initial parameters: constants, truncated normal and uniform draws, bit-equal on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/layout.h"
#include "nets/layer_spec.h"

namespace terngrad {

/// The quantile function of the standard normal distribution cut at two standard deviations: the x in (-2, 2) with
/// P(X < x | |X| < 2) = probability: the distribution of redrawing beyond 2 std, without redraws. Wichura, "Algorithm
/// AS 241", Applied Statistics 37 (1988), PPND16, with a logarithm of our own: additions, multiplications, divisions
/// and square roots only, so every IEEE 754 machine gives the same bits.
/// @param probability  in (0, 1)
double truncated_normal_quantile(double probability);

/// Fills one tensor: a constant, stddev * truncated_normal_quantile(p), or limit * (2 p - 1), rounded to float once,
/// with p = (r + 1/2) / 2^32 and r draw32 number `position` of the stream {seed, step 0, worker = tensor_index,
/// DrawPurpose::kInitializer}. Draws depend on seed, tensor index and position only; bitwise equal on every machine.
/// @param initializer  kConstant, kTruncatedNormal or kUniform; plan_net resolves the others, which depend on fans
/// @param values       [n] out; n may be 0
/// @throws std::logic_error for an initializer that depends on fans
void fill_tensor(const Initializer& initializer, std::uint64_t seed, int tensor_index, std::span<float> values);

}  // namespace terngrad
