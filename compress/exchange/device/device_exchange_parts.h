// DeviceExchangeParts: an exchange in parts that are not known beforehand, in a GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "compress/exchange/device/device_all_reduce.h"
#include "compress/exchange/device/device_nonfinite.h"
#include "compress/exchange/device/device_part_exchange.h"
#include "compress/exchange/part_list.h"
#include "compress/memory/factor_state.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {

/// ExchangeParts for gradients in a GPU's memory, with its bits (contract B2). All calls but report and decode_local
/// submit work to the stream and wait for nothing, unless a codec goes through the host. A step with parts that the one
/// before did not have allocates memory, and frees that of parts which are not used any more: that waits for the GPU.
class DeviceExchangeParts {
 public:
  /// Arguments as those of DeviceAllReduce and ExchangeParts. @param stream  the caller's (Stream::borrow), or one of
  /// its own
  DeviceExchangeParts(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                      const CompressedAllReduceOptions& options, const Stream& stream,
                      std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator(),
                      const MemoryOptions& memory = {});
  DeviceExchangeParts(const DeviceExchangeParts&) = delete;
  DeviceExchangeParts& operator=(const DeviceExchangeParts&) = delete;

  const Layout& layout() const { return parts_.layout(); }
  const CodecPlan& plan() const { return parts_.plan(); }
  /// What this rank's workers keep from step to step, in device memory; nullptr: nothing.
  WorkerMemory* memory() { return memory_.has_value() ? &*memory_ : nullptr; }
  /// What all ranks keep alike from step to step, in device memory.
  FactorState& factors() { return factors_; }
  /// As ExchangeParts::layout_of.
  const Layout& layout_of(std::span<const int> segments) { return parts_.of(segments).layout; }

  /// Submits the beginning of a step, after whatever became of the one before.
  void begin(std::uint64_t step);
  /// Submits the exchange of some tensors. All ranks exchange the same parts in the same order.
  /// @param mean  may be the gradients of one of the local workers. After a tensor that was not finite it holds
  /// anything, unless such tensors count as zeros: see skip
  /// @returns the part's bytes. @throws InvalidArgument as ExchangeParts::exchange
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);
  /// Submits the end of the step: what workers and all ranks keep changes, unless the step is to be dropped.
  void finish();

  /// [1] on the device: not 0 once a part of the step was not finite and the step is to be dropped.
  const std::uint32_t* skip() const { return nonfinite_->skip(); }
  /// Bytes of the last step, counted without asking the GPU.
  ExchangeReport bytes() const { return bytes_; }
  /// Waits for the stream, and says what the last step did: bytes and what was not finite; no times.
  /// @throws NonFiniteError as DeviceAllReduce::report
  ExchangeReport report();
  /// Decodes on the host, which waits, a tensor that was exchanged in the last step: what it holds where that step is
  /// dropped (skip) means nothing. @param out  host memory
  float decode_local(int local_worker, int segment, std::span<float> out);

 private:
  WorkerRange workers_;
  CompressedAllReduceOptions options_;
  Stream stream_;
  std::shared_ptr<DeviceCommunicator> communicator_;
  std::shared_ptr<DeviceNonfinite> nonfinite_;
  PartList<DevicePartExchange> parts_;
  FactorState factors_;
  std::optional<WorkerMemory> memory_;
  ExchangeReport bytes_;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
};

}  // namespace terngrad
