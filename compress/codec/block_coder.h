// BlockCoder: base of coders with one scaler per tensor or block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/slice_coder.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Measures one scaler per run of elements (compress/codec/scaled_runs.h). Derived classes encode the slices.
class BlockCoder : public SliceCoder {
 public:
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override;

 protected:
  /// @param block_elements  a multiple of 64; 0: one scaler per tensor
  /// @param rule, factor    define the scalers, as arguments of local_scaler
  BlockCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots,
             std::int64_t block_elements, ScalerRule rule, double factor);

  /// Writes the mean of the workers' messages, each decoded with the worker's own scalers.
  void aggregate_own(const TensorTable& mean, LeafFormat format, Stream& stream) {
    SliceCoder::aggregate_own(mean, {.format = format}, stream);
  }

 private:
  ScalerRule rule_;
  double factor_;
  StatisticsPlan plan_;
};

}  // namespace terngrad
