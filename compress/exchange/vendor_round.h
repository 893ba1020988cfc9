// VendorRound: the mean of all workers' gradients by the all-reduce of the communication library.
#pragma once

#include <cstdint>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/exchange/mean_check.h"
#include "compress/exchange/part_exchange.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/codes/float_payload.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Uncompressed baseline. The gradients of the local workers are added (in the order of aggregate_tree), scaled by
/// fl(1 / N), rounded to the element type, and summed over ranks by vendor_sum: by MPI, or on GPUs by NCCL. The library
/// determines the order and rounding of that sum, so results may depend on the number of ranks and on the parts that a
/// step is exchanged in, and neither contract B2 nor B3 holds. NaN and infinity are found in the mean, so an error
/// names the tensor but not the worker.
///
/// The report counts the bytes of an all-reduce by shards between the N workers (all_reduce_bytes), whatever the number
/// of processes; the library's own algorithms move as much for gradients that are not small.
class VendorRound final : public PartExchange {
 public:
  /// @param context  its options have a vendor_type, and nothing that require_combination refuses beside it
  VendorRound(const Layout& layout, const PartContext& context, std::vector<int> numbers);

  void run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step, Stream& stream,
           PartClock& clock) override;
  ExchangeBytes bytes() const override { return bytes_; }
  /// The worker's gradient of the last step, rounded to the element type; the tables of that step must still be valid.
  float decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) override;
  /// There is nothing that a message left out.
  void update_memory(const MemoryUpdate&, std::span<const TensorTable>, std::span<const TensorTable>,
                     Stream&) override {}
  void commit(Stream& /*stream*/) override {}
  std::vector<const Round*> rounds() const override { return {}; }

 private:
  /// Writes the scaled sum of the local workers to `travelling_`.
  void add_local(std::span<const TensorTable> gradients, Stream& stream);
  void add_ranks(Stream& stream);
  void write_mean(const TensorTable& mean, Stream& stream);
  /// A tensor that is not empty, and its place among all tensors without gaps.
  struct Tensor {
    int segment = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  CoderSetup setup_;
  std::vector<Tensor> tensors_;
  ElementType type_;
  ExchangePeers peers_;
  NonfiniteFlags& flags_;
  Buffer<float> sum_;                   // all tensors without gaps
  Buffer<std::uint16_t> rounded_;       // sum_ rounded, if 16-bit elements travel
  FloatSpan travelling_;                // one of the two
  std::vector<Buffer<float>> widened_;  // [local workers] gradients, if they are float16
  TreeSummer summer_;
  FloatPacker writer_;
  MeanCheck mean_check_;
  ExchangeBytes bytes_;
  std::vector<TensorTable> last_;  // gradients of the last step
};

}  // namespace terngrad
