// VendorAllReduce: mean of all workers' gradients by the all-reduce of the MPI library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/on_nonfinite.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Names of the supported element types, as codecs are named: "fp32", "bf16", "fp16".
std::vector<std::string> vendor_codec_names();
/// Element type of a name. @throws InvalidArgument for another name
ElementType vendor_element_type(const std::string& codec);

/// Options of VendorAllReduce.
struct VendorAllReduceOptions {
  ElementType type = ElementType::kFloat32;  // element type on the wire
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  float mean_factor = 1;  // as CompressedAllReduceOptions::mean_factor
  int num_threads = 1;    // threads of this process
};

/// Uncompressed baseline. Local gradients are added (in the order of aggregate_tree), scaled by fl(1 / N), rounded to
/// `type`, and summed over ranks by Communicator::vendor_sum. The library determines the order and rounding of that
/// sum, so results may depend on the number of processes, and neither contract B2 nor B3 holds. NaN and infinity are
/// found in the mean, so an error names the tensor but not the worker.
///
/// The report counts the bytes of an all-reduce by shards between the N workers (all_reduce_bytes), whatever the number
/// of processes; the library's own algorithms move as much for gradients that are not small.
class VendorAllReduce final : public GradientExchange {
 public:
  /// @throws InvalidArgument for OnNonfinite::kZero, since the worker with the non-finite tensor is unknown
  VendorAllReduce(const Layout& layout, WorkerGroup workers, const VendorAllReduceOptions& options);

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  /// The worker's gradient of the last step, rounded to `type`; the tables of that exchange must still be valid.
  float decode_local(int local_worker, int segment, std::span<float> out) override;

 private:
  void add_local(std::span<const TensorTable> gradients);
  void travel(ExchangeReport& report);
  /// Copies the result out and checks that it is finite.
  void finish(const TensorTable& mean, std::uint64_t step, ExchangeReport& report);

  Layout layout_;
  WorkerGroup workers_;
  VendorAllReduceOptions options_;
  Stream stream_;
  Buffer<float> sum_;              // all tensors without gaps
  Buffer<std::uint16_t> rounded_;  // sum_ rounded, if 16-bit elements travel
  std::vector<TensorTable> last_;  // gradients of the last step
};

}  // namespace terngrad
