// Scalers: from statistics to the one number that ternary codes are multiples of.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/statistics/statistics.h"

namespace terngrad {

enum class ScalerRule {
  /// c > 0 and variance > 0: min(max|g|, c sigma); else max|g|. The paper's: clip at c sigma, then take the maximum.
  kPaper,
  /// c > 0: c sigma, even where that is more than max|g| (or 0); else max|g|. What the authors' public code does.
  kOriginal,
  /// The least power of two that is not below max|g|.
  kPowerOfTwo,
  /// The Euclidean norm, sqrt(S2).
  kL2,
  /// c times the root of the mean square, c sqrt(S2 / n).
  kRms,
  /// max|g| / c.
  kMaxOver,
  // Of signs, which are multiplied by them and divided by none: 0 only where max|g| is below kMinScaler.
  /// The mean magnitude, A / n with A = sum |g|.
  kMeanMagnitude,
  /// The root of the mean square, sqrt(S2 / n).
  kRootMeanSquare,
  /// S2 / A.
  kSquaresOverMagnitudes,
  /// 1, whatever the elements are.
  kOne,
};

/// What a rule needs the sum of.
constexpr SummedAs summed_as(ScalerRule rule) {
  const bool magnitudes = rule == ScalerRule::kMeanMagnitude || rule == ScalerRule::kSquaresOverMagnitudes;
  return magnitudes ? SummedAs::kMagnitudes : SummedAs::kValues;
}

/// Local scaler s_k of `count` elements with these statistics, in the units of g.
///
///   variance = max(0, S2 / n - (S1 / n)^2), taken as 0 if below 2^-40 S2 / n;  sigma = sqrt(variance)   (population)
///
/// all in float64; c sigma is rounded to float32 once. Empty gives 0. NaN or infinity gives the canonical NaN, and so
/// does a result above kMaxScaler; one below kMinScaler gives 0.
/// @param statistics   their sum is what summed_as(rule) says
/// @param clip_factor  c, finite and >= 0; 0 means no clipping. Looked at with kPaper, kOriginal, kRms and kMaxOver
/// only Source: Wen et al., "TernGrad", NIPS 2017, section 3.3 (gradient clipping); the original's code for kOriginal.
float local_scaler(const Statistics& statistics, std::int64_t count, double clip_factor, ScalerRule rule);

/// The local scalers of every slice of a plan, for the gradients of several workers: whole models in one pass over
/// their elements. On a GPU nothing is allocated and the host does not wait, once the plan has run with these tables.
/// @param workers  one table per worker, all of one element type; of device memory on a GPU
/// @param out      [workers.size() * plan.slices().size()] out, worker after worker; device memory on a GPU
/// @throws InvalidArgument if out has another size, tables are of different types or the plan was made for another
/// device. Bit-equal on every backend, and to the scalers of the elements widened to float32.
void local_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream);

/// Like local_scalers, but with one scaler for all of a worker's slices together: that of their joint statistics,
/// slices in order. A slice that is not finite gets the canonical NaN and counts as absent from the others'.
void model_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream);

/// The canonical NaN for every slice that is not finite, else 0: what codecs without scalers say of a gradient.
/// @param first_nonfinite  the bit pattern of the smallest magnitude that counts as not finite: 0x7f800000 (infinity),
/// or
///                         less where a magnitude will be rounded to infinity
void nonfinite_flags(StatisticsPlan& plan, std::span<const TensorTable> workers, std::uint32_t first_nonfinite,
                     std::span<float> out, Stream& stream);

/// sigma as above, in float64; 0 for empty.
double standard_deviation(const Statistics& statistics, std::int64_t count);

/// The NaN that stands for a non-finite tensor.
float canonical_nan();

}  // namespace terngrad
