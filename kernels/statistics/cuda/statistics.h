// Statistics and local scalers on a GPU: the GPU part of StatisticsPlan.
#pragma once

#include <memory>
#include <span>

#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad::cuda {

/// Computes the statistics of a plan's slices, for several workers at once.
class StatisticsRunner {
 public:
  virtual ~StatisticsRunner() = default;
  /// @param workers  tables of one element type
  /// @param out      [workers.size() * number of slices] out, in device memory
  virtual void statistics(std::span<const TensorTable> workers, Statistics* out, Stream& stream, SummedAs summed) = 0;
  /// @param out  shape as above
  virtual void local_scalers(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, float* out,
                             Stream& stream) = 0;
  /// @param out  shape as above: NaN for slices whose largest magnitude is at least `first_nonfinite`, else 0
  virtual void nonfinite_flags(std::span<const TensorTable> workers, std::uint32_t first_nonfinite, float* out,
                               Stream& stream) = 0;
  /// @param out  shape as above: one scaler for all slices of a worker, NaN for non-finite slices
  virtual void model_scalers(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, float* out,
                             Stream& stream) = 0;
};

std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice> slices, const Device& device);

}  // namespace terngrad::cuda
