// BlockCoder: what coders with one scaler for each tensor or block of it have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/slice_coder.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Measures one scaler for each run of elements (compress/codec/scaled_runs.h). How a slice is encoded is the codec's.
class BlockCoder : public SliceCoder {
 public:
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override;

 protected:
  /// @param block_elements  a multiple of 64; 0: one scaler for a tensor
  /// @param rule, factor    of the scalers, as local_scaler takes them
  BlockCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots,
             std::int64_t block_elements, ScalerRule rule, double factor);

  /// The mean of what each worker sent with its own scalers.
  void aggregate_own(const TensorTable& mean, LeafFormat format, Stream& stream) {
    SliceCoder::aggregate_own(mean, {.format = format}, stream);
  }

 private:
  ScalerRule rule_;
  double factor_;
  StatisticsPlan plan_;
};

}  // namespace terngrad
