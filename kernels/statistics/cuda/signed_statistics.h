// Signed statistics on a GPU: the GPU part of SignedStatisticsPlan.
#pragma once

#include <memory>
#include <span>

#include "kernels/statistics/signed_statistics.h"

namespace terngrad::cuda {

/// Computes the statistics of a plan's runs, for several workers at once.
class SignedStatisticsRunner {
 public:
  virtual ~SignedStatisticsRunner() = default;
  /// @param workers  tables of one element type
  /// @param out      [workers.size() * number of groups] out, in device memory
  virtual void statistics(std::span<const TensorTable> workers, SignedStatistics* out, Stream& stream) = 0;
  /// @param out  [workers.size() * 2 * number of groups] out
  virtual void side_means(std::span<const TensorTable> workers, float* out, Stream& stream) = 0;
};

std::shared_ptr<SignedStatisticsRunner> make_signed_statistics_runner(std::span<const SignedRun> runs,
                                                                      const Device& device);

}  // namespace terngrad::cuda
