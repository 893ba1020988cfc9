// DeviceExchangeParts: an exchange in parts (sets of tensors) that are not known beforehand, in GPU memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "compress/comm/device_communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/exchange/part_list.h"
#include "compress/memory/factor_state.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {

/// ExchangeParts for gradients in GPU memory, with the same bits (contract B2). All calls except report and
/// decode_local submit work to the stream without waiting, unless a codec goes through the host. A step whose parts
/// differ from those of the previous step allocates memory, and frees the memory of unused parts, which waits for the
/// GPU.
class DeviceExchangeParts {
 public:
  /// Arguments as in CompressedAllReduce and ExchangeParts. @param stream  the caller's (Stream::borrow), or one of its
  /// own
  DeviceExchangeParts(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                      const CompressedAllReduceOptions& options, const Stream& stream,
                      std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator(),
                      const MemoryOptions& memory = {});
  DeviceExchangeParts(const DeviceExchangeParts&) = delete;
  DeviceExchangeParts& operator=(const DeviceExchangeParts&) = delete;

  const Layout& layout() const { return parts_.layout(); }
  const CodecPlan& plan() const { return parts_.plan(); }
  /// Memory of this rank's workers, in device memory; nullptr if there is none.
  WorkerMemory* memory() { return memory_.has_value() ? &*memory_ : nullptr; }
  /// State of low-rank tensors, equal on all ranks, in device memory.
  FactorState& factors() { return factors_; }
  /// As ExchangeParts::layout_of.
  const Layout& layout_of(std::span<const int> segments) { return parts_.of(segments).layout; }

  /// Submits the beginning of a step, even if the previous one was not finished.
  void begin(std::uint64_t step);
  /// Submits the exchange of some tensors. All ranks must exchange the same parts in the same order.
  /// @param mean  may be the gradients of a local worker. Unspecified for non-finite tensors, unless these count as
  ///              zeros: see skip
  /// @returns the part's bytes. @throws InvalidArgument as ExchangeParts::exchange
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);
  /// Submits the end of the step: updates memories and the state that is equal on all ranks, unless the step is to be
  /// dropped.
  void finish();

  /// [1] on the device: nonzero once a part of the step was not finite and the step is to be dropped.
  const std::uint32_t* skip() const { return flags_.skip(); }
  /// Bytes of the last step; does not access the GPU.
  ExchangeReport bytes() const { return bytes_; }
  /// Waits for the stream and returns the report of the last step: bytes and non-finite tensors, no times.
  /// @throws NonFiniteError as CompressedAllReduce::report
  ExchangeReport report();
  /// Decodes a tensor that was exchanged in the last step on the host, which waits for the stream. The values are
  /// meaningless if that step is dropped (skip). @param out  host memory
  float decode_local(int local_worker, int segment, std::span<float> out);

 private:
  WorkerRange workers_;
  CompressedAllReduceOptions options_;
  Stream stream_;
  std::shared_ptr<DeviceCommunicator> communicator_;
  NonfiniteFlags flags_;
  PartList<PartExchange> parts_;
  FactorState factors_;
  std::optional<WorkerMemory> memory_;
  ExchangeReport bytes_;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
};

}  // namespace terngrad
