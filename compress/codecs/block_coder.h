// BlockCoder: what coders with a scaler for each tensor or block of it have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codecs/coder.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/buffer.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Measures one scaler for each run of elements (compress/codecs/scaled_runs.h), lists the slices to encode with them,
/// and adds up what every worker sent with its own. How a slice is encoded is the codec's.
class BlockCoder : public Coder {
 public:
  bool can_overflow() const override { return codec().sharing() == ScalerSharing::kNone; }
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override;

 protected:
  /// @param block_elements  a multiple of 64; 0: one scaler for a tensor
  /// @param rule, factor    of the scalers, as local_scaler takes them
  BlockCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots,
             std::int64_t block_elements, ScalerRule rule, double factor);

  std::int64_t block_elements() const { return block_elements_; }
  /// One task for each slice of each local worker, after combine_scalers. Says that every payload gets the bytes that
  /// max_payload_bytes names. Valid until the next call.
  std::span<const QuantizeTask> quantize_tasks(std::span<const TensorTable> gradients);
  /// Of the first local worker; tasks add their worker's number.
  DrawKey draw_key(const DeviceStep& step) const;
  /// The mean of what each worker sent with its own scalers.
  void aggregate_own(const TensorTable& mean, LeafFormat format, Stream& stream);

 private:
  std::int64_t block_elements_;
  ScalerRule rule_;
  double factor_;
  StatisticsPlan plan_;
  TreeSummer tree_summer_;
  Buffer<std::int64_t> first_scalers_;  // on the device; with blocks
  std::vector<QuantizeTask> tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
};

}  // namespace terngrad
