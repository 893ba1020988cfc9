// SliceCoder: base of coders with fixed-size codes and scalers per tensor or block.
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

/// Lists the slices to encode with their scalers, and adds up the workers' payloads. Derived classes measure scalers
/// and encode slices.
class SliceCoder : public Coder {
 public:
  bool can_overflow() const override { return codec().sharing() == ScalerSharing::kNone || codec().rotation() != 0; }

 protected:
  /// @param block_elements  a multiple of 64; 0: no scalers per block
  SliceCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots,
             std::int64_t block_elements);

  std::int64_t block_elements() const { return block_elements_; }
  /// Call it after measuring: if one of a tensor's local scalers is NaN, sets all of them to NaN.
  void flag_whole_tensors(Stream& stream) { flag_whole_tensors(local_rows().data(), stream); }
  /// The same for other rows of the local workers. @param rows  [local workers][num_scalers] on the device
  void flag_whole_tensors(float* rows, Stream& stream);
  /// One task per slice of each local worker; call it after combine_scalers. Sets all payload lengths to
  /// max_payload_bytes. Valid until the next call.
  /// @param rows  [local workers][num_scalers] scalers to encode with, on the device; null: drawn_with
  std::span<const QuantizeTask> quantize_tasks(std::span<const TensorTable> gradients, const float* rows = nullptr);
  /// Key for the first local worker; tasks add their worker's number.
  DrawKey draw_key(const DeviceStep& step) const;
  /// One task per aggregated slice, for codes that add up as integers. Valid until the next call.
  std::span<const CodeSumTask> sum_tasks(const TensorTable& mean, AggregateUnit unit, CodeFormat format,
                                         int lane_levels);
  /// Writes the mean of the workers' messages, each decoded with the worker's own scalers.
  /// @param leaves  leaf format and the codec's other settings; the rest is filled in here
  void aggregate_own(const TensorTable& mean, const MeanTask& leaves, Stream& stream);

 private:
  std::int64_t block_elements_;
  TreeSummer tree_summer_;
  Buffer<std::int64_t> first_scalers_;  // on the device
  Buffer<float> ones_;                  // [num_scalers] factors 1, for sums; for codecs with shared scalers
  std::vector<QuantizeTask> tasks_;
  std::vector<CodeSumTask> sum_tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
};

}  // namespace terngrad
