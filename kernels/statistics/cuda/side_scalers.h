// Scalers of two sides on a GPU: the part of SideScalerPlan that lives there.
#pragma once

#include <memory>
#include <span>

#include "kernels/statistics/side_scalers.h"

namespace terngrad::cuda {

/// Measures the slices of a plan, for several workers at once.
class SideScalerRunner {
 public:
  virtual ~SideScalerRunner() = default;
  /// As SideScalerPlan::run. @param statistics  of the plan's slices, for sigma
  virtual void run(StatisticsPlan& statistics, std::span<const TensorTable> workers, double clip_factor,
                   ScalerRule rule, float* out, Stream& stream) = 0;
};

/// @param chunks, first_chunk  as SideScalerPlan has them
std::shared_ptr<SideScalerRunner> make_side_scaler_runner(std::span<const Slice> slices, std::span<const Slice> chunks,
                                                          std::span<const std::int64_t> first_chunk,
                                                          const Device& device);

}  // namespace terngrad::cuda
