// DeviceAllReduce: mean of workers' gradients in GPU memory, exchanged in encoded form.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/device/device_part_exchange.h"
#include "compress/exchange/downlink_forms.h"
#include "compress/exchange/exchange_algorithm.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/plan/codec_plan.h"

namespace terngrad {

class MeanCheck;
class DevicePayloads;
class Downlink;
class DownlinkPayloads;

/// CompressedAllReduce for gradients in device memory, for any number of ranks, with the same bits in the mean
/// (contract B2). Workers send payloads of fixed size, without headers and checksums; their scalers are gathered
/// separately. The host takes part only for codecs without kernels. Without such codecs submit() can be captured into a
/// CUDA graph, if the communicator's operations can.
class DeviceAllReduce final : public GradientExchange, public DevicePartExchange {
 public:
  /// @param workers       workers of this rank: a WorkerGroup, or the worker_range of the communicator's rank
  /// @param options       as for CompressedAllReduce, the same on all ranks, without an update of shards. With
  ///                      scatter_reduce the rank of worker j aggregates shard j; with servers, the first rank
  ///                      aggregates everything, beside its workers. run_id and num_threads have no effect
  /// @param communicator  connects the ranks; default: this process alone
  /// @throws InvalidArgument as CompressedAllReduce does, and if the workers do not belong to the communicator's rank;
  /// NotSupported for a codec without kernels whose payloads have no fixed size
  DeviceAllReduce(const Layout& layout, const WorkerRange& workers, const CompressedAllReduceOptions& options,
                  const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator());
  /// Uses an existing plan, made for workers.num_workers; options.codecs is ignored.
  DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                  const CompressedAllReduceOptions& options, const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator());
  /// Settings of an exchange that is one part of a larger exchange.
  struct Part {
    std::vector<int> numbers = {};  // indices of its tensors in the full layout; empty: all tensors
    std::shared_ptr<NonfiniteFlags> nonfinite = nullptr;  // shared by all parts; null: the part has its own
  };
  DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                  const CompressedAllReduceOptions& options, const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator, Part part);
  // Not copyable or movable: members hold references to plan_.
  ~DeviceAllReduce() override;
  DeviceAllReduce(const DeviceAllReduce&) = delete;
  DeviceAllReduce& operator=(const DeviceAllReduce&) = delete;

  /// Submits the exchange of one step and waits for it. Gradients and mean are in device memory.
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;

  /// Submits the exchange of one step to the stream, without waiting unless codecs_through_host() is not empty. After a
  /// first run with the same tables it can be captured into a graph.
  /// @param step  keys the random draws; read from device memory if `on_device` is set
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);
  void submit_part(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                   Stream& stream) override;
  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                               std::uint64_t step) override;
  /// [1] on the device, for StepScalars::skip: nonzero if the step is to be dropped because a gradient or mean was not
  /// finite. With OnNonfinite::kStop it then stays nonzero, so that no later update is applied before the host checks.
  const std::uint32_t* skip() const { return nonfinite_->skip(); }
  /// Waits for the stream and returns the report of the last submitted step: bytes and non-finite tensors, no times.
  /// @throws NonFiniteError with OnNonfinite::kStop if any step since the first held NaN or infinity
  ExchangeReport report(std::uint64_t step);
  ExchangeReport bytes() const override;
  /// Submits the start of a new run: clears the non-finite state of earlier steps.
  void forget_nonfinite() { nonfinite_->forget(stream_); }

  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     Stream& stream) override;
  void commit(Stream& /*stream*/) override {}

  const CodecPlan& plan() const { return plan_; }
  std::vector<std::string> codecs_through_host() const override;
  /// The algorithm in use, kAuto resolved.
  ExchangeAlgorithm algorithm() const { return algorithm_; }
  Stream& stream() { return stream_; }

 private:
  struct Times;
  void make_payloads();
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step, Stream& stream,
              Times* times);

  CoderSetup setup_;
  CompressedAllReduceOptions options_;
  CodecPlan plan_;
  std::vector<Slice> whole_;  // slices of all tensors
  Stream stream_;
  std::shared_ptr<DeviceCommunicator> communicator_;
  std::vector<WorkerRange> ranks_;  // worker range of each rank
  ExchangeAlgorithm algorithm_;
  DownlinkForms forms_;
  std::vector<std::unique_ptr<DevicePayloads>> payloads_;  // together they serve all groups of the plan
  std::vector<std::unique_ptr<Coder>> coders_;             // one per group of the plan
  std::vector<DeviceGather> scaler_gathers_;               // one per coder
  std::unique_ptr<DownlinkPayloads> mean_payloads_;
  std::unique_ptr<Downlink> downlink_;
  std::unique_ptr<MeanCheck> mean_check_;
  std::shared_ptr<NonfiniteFlags> nonfinite_;
  bool has_sent_ = false;  // at least one step was submitted
};

}  // namespace terngrad
