// SliceCoder: what coders of codes of fixed size with scalers for each tensor or block of it have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/buffer.h"

namespace terngrad {

/// Lists the slices to encode with their scalers, and adds up what every worker sent. How scalers are measured and how
/// a slice is encoded is the codec's.
class SliceCoder : public Coder {
 public:
  bool can_overflow() const override { return codec().sharing() == ScalerSharing::kNone || codec().rotation() != 0; }

 protected:
  /// @param block_elements  a multiple of 64; 0: scalers are not of blocks
  SliceCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots,
             std::int64_t block_elements);

  std::int64_t block_elements() const { return block_elements_; }
  /// After measuring: where one of a tensor's local scalers is NaN, all become it.
  void flag_whole_tensors(Stream& stream);
  /// One task for each slice of each local worker, after combine_scalers. Says that every payload gets the bytes that
  /// max_payload_bytes names. Valid until the next call.
  std::span<const QuantizeTask> quantize_tasks(std::span<const TensorTable> gradients);
  /// Of the first local worker; tasks add their worker's number.
  DrawKey draw_key(const DeviceStep& step) const;
  /// One task for each aggregated slice, of codes that add up as integers. Valid until the next call.
  std::span<const CodeSumTask> sum_tasks(const TensorTable& mean, AggregateUnit unit, CodeFormat format,
                                         int lane_levels);
  /// The mean of what each worker sent with its own scalers.
  /// @param leaves  what leaves are: the format, and what of it no codec shares
  void aggregate_own(const TensorTable& mean, const MeanTask& leaves, Stream& stream);

 private:
  std::int64_t block_elements_;
  TreeSummer tree_summer_;
  Buffer<std::int64_t> first_scalers_;  // on the device
  Buffer<float> ones_;                  // scales that leave sums as they are: a row; of shared codes
  std::vector<QuantizeTask> tasks_;
  std::vector<CodeSumTask> sum_tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
};

}  // namespace terngrad
