// VendorAllReduce: the mean of all workers' gradients by the transport library's own all-reduce.
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

/// The types that it adds, called as codecs are: "fp32", "bf16", "fp16".
std::vector<std::string> vendor_codec_names();
/// @throws InvalidArgument for another name
ElementType vendor_element_type(const std::string& codec);

struct VendorAllReduceOptions {
  ElementType type = ElementType::kFloat32;  // of the elements that travel
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  float mean_factor = 1;  // as CompressedAllReduceOptions::mean_factor
  int num_threads = 1;    // of this process
};

/// The baseline that compression is compared with: local gradients are added (in the order of aggregate_tree), scaled
/// by fl(1 / N), rounded to `type`, and added over ranks by Communicator::vendor_sum. The order of that sum and its
/// rounding are the library's: results may depend on the number of processes, so neither contract B2 nor B3 holds. NaN
/// and infinities are found in the mean, so a message names the tensor but not the worker.
///
/// Bytes of the report are those of an all-reduce by shards between the N workers (all_reduce_bytes), whatever the
/// processes: what the library's own algorithms move for gradients that are not small.
class VendorAllReduce final : public GradientExchange {
 public:
  /// @throws InvalidArgument for OnNonfinite::kZero: which worker's tensor to count as zero is not known
  VendorAllReduce(const Layout& layout, WorkerGroup workers, const VendorAllReduceOptions& options);

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  /// The worker's gradient of the last step, rounded as it travels; `gradients` of that exchange must still be there.
  float decode_local(int local_worker, int segment, std::span<float> out) override;

 private:
  void add_local(std::span<const TensorTable> gradients);
  void travel(ExchangeReport& report);
  /// Copies the result out and looks for what is not finite.
  void finish(const TensorTable& mean, std::uint64_t step, ExchangeReport& report);

  Layout layout_;
  WorkerGroup workers_;
  VendorAllReduceOptions options_;
  Stream stream_;
  Buffer<float> sum_;              // all tensors without gaps
  Buffer<std::uint16_t> rounded_;  // the same, where elements of 16 bits travel
  std::vector<TensorTable> last_;  // gradients of the last step
};

}  // namespace terngrad
