// Scalers: the magnitude that ternary codes (and signs) are multiplied by, computed from statistics.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Formula for the scaler, with clip factor c; see local_scaler.
enum class ScalerRule {
  /// c > 0 and variance > 0: min(max|g|, c sigma); else max|g|. The paper's rule: clip at c sigma, then take the
  /// maximum.
  kPaper,
  /// c > 0: c sigma, even if it exceeds max|g| or is 0; else max|g|. The rule of the authors' public code.
  kOriginal,
  /// The smallest power of two that is at least max|g|.
  kPowerOfTwo,
  /// The Euclidean norm, sqrt(S2).
  kL2,
  /// c times the root of the mean square, c sqrt(S2 / n).
  kRms,
  /// max|g| / c.
  kMaxOver,
  // Rules for signs. No division by the scaler occurs, so it is 0 only if max|g| is below kMinScaler.
  /// The mean magnitude, A / n with A = sum |g|.
  kMeanMagnitude,
  /// The root of the mean square, sqrt(S2 / n).
  kRootMeanSquare,
  /// S2 / A.
  kSquaresOverMagnitudes,
  /// Constant 1.
  kOne,
};

/// Kind of sum that a rule needs.
constexpr SummedAs summed_as(ScalerRule rule) {
  const bool magnitudes = rule == ScalerRule::kMeanMagnitude || rule == ScalerRule::kSquaresOverMagnitudes;
  return magnitudes ? SummedAs::kMagnitudes : SummedAs::kValues;
}

/// Local scaler s_k of `count` elements with these statistics, in the units of g.
///
///   variance = max(0, S2 / n - (S1 / n)^2), taken as 0 if below 2^-40 S2 / n;  sigma = sqrt(variance)   (population)
///
/// All in float64; c sigma is rounded to float32 once. Returns 0 if empty. NaN, infinity, or a result above kMaxScaler
/// give the canonical NaN; a result below kMinScaler gives 0.
/// @param statistics   their sum must be of the kind summed_as(rule)
/// @param clip_factor  c, finite and >= 0; 0 means no clipping. Used by kPaper, kOriginal, kRms and kMaxOver only
/// Source: Wen et al., "TernGrad", NIPS 2017, section 3.3 (gradient clipping); the authors' code for kOriginal.
float local_scaler(const Statistics& statistics, std::int64_t count, double clip_factor, ScalerRule rule);

/// Computes the local scalers of every slice of a plan for the gradients of several workers, in one pass over the
/// elements. Bit-equal on every backend, and to the scalers of the elements widened to float32. On a GPU it is
/// asynchronous and allocates nothing once the plan has run with these tables.
/// @param workers  one table per worker, all of one element type; in device memory on a GPU
/// @param out      [workers.size() * plan.slices().size()] out, worker-major; device memory on a GPU
/// @throws InvalidArgument if out has another size, element types differ or the plan was made for another device
void local_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream);

/// Like local_scalers, but computes one scaler per worker from the joint statistics of its slices, combined in order.
/// Non-finite slices are excluded and get the canonical NaN.
void model_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream);

/// Writes the canonical NaN for every non-finite slice, else 0: the flags of codecs without scalers.
/// @param first_nonfinite  bit pattern of the smallest magnitude that counts as non-finite: 0x7f800000 (infinity), or
///                         less if magnitudes from there on will be rounded to infinity
void nonfinite_flags(StatisticsPlan& plan, std::span<const TensorTable> workers, std::uint32_t first_nonfinite,
                     std::span<float> out, Stream& stream);

/// sigma as in local_scaler, in float64; 0 if empty.
double standard_deviation(const Statistics& statistics, std::int64_t count);

/// The NaN that marks a non-finite tensor.
float canonical_nan();

}  // namespace terngrad
