// Scalers of both sides on a GPU: the GPU part of SideScalerPlan.
#pragma once

#include <memory>
#include <span>

#include "kernels/statistics/side_scalers.h"

namespace terngrad::cuda {

/// Computes the scalers of a plan's slices, for several workers at once.
class SideScalerRunner {
 public:
  virtual ~SideScalerRunner() = default;
  /// As SideScalerPlan::run. @param statistics  plan over the same slices, for sigma
  virtual void run(StatisticsPlan& statistics, std::span<const TensorTable> workers, double clip_factor,
                   ScalerRule rule, float* out, Stream& stream) = 0;
};

/// @param chunks, first_chunk  as in SideScalerPlan
std::shared_ptr<SideScalerRunner> make_side_scaler_runner(std::span<const Slice> slices, std::span<const Slice> chunks,
                                                          std::span<const std::int64_t> first_chunk,
                                                          const Device& device);

}  // namespace terngrad::cuda
