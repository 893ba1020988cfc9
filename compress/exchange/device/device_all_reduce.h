// DeviceAllReduce: the mean of workers' gradients that are in one GPU's memory, exchanged in encoded form.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/device/device_nonfinite.h"
#include "compress/exchange/device/device_part_exchange.h"
#include "compress/exchange/exchange_algorithm.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/plan/codec_plan.h"

namespace terngrad {

class DeviceMeanCheck;
class DevicePayloads;
class DeviceDownlink;

/// Does what CompressedAllReduce does, with the same bits in the mean, for gradients in device memory, for any number
/// of ranks (contract B2). Codes travel as payloads of fixed size between the workers, without headers and checksums;
/// scalers beside them, gathered from all ranks. The host takes no part, except for codecs without kernels: otherwise
/// submit() can be captured into a CUDA graph, if the communicator's operations can.
class DeviceAllReduce final : public GradientExchange, public DevicePartExchange {
 public:
  /// @param workers       of this rank: a WorkerGroup, or what worker_range gives for the communicator's ranks
  /// @param options       as for CompressedAllReduce, the same on all ranks, without an update of shards. In
  ///                      scatter_reduce the rank of worker j aggregates shard j; with servers, the first rank
  ///                      aggregates everything, beside its workers. run_id and num_threads do nothing
  /// @param communicator  between ranks; this process alone by default
  /// @throws InvalidArgument as CompressedAllReduce does, and if the workers are not those of the communicator's rank;
  /// NotSupported for a codec without kernels whose payloads have no fixed size
  DeviceAllReduce(const Layout& layout, const WorkerRange& workers, const CompressedAllReduceOptions& options,
                  const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator());
  /// With a plan made before, for a run of that many workers; options.codecs is not looked at.
  DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                  const CompressedAllReduceOptions& options, const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator());
  /// What makes an exchange one of the parts of a larger one.
  struct Part {
    std::vector<int> numbers = {};                         // of its tensors in the layout of all; empty: it has all
    std::shared_ptr<DeviceNonfinite> nonfinite = nullptr;  // of all parts; null: its own
  };
  DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                  const CompressedAllReduceOptions& options, const Stream& stream,
                  std::shared_ptr<DeviceCommunicator> communicator, Part part);
  // What it is made of refers to its plan.
  ~DeviceAllReduce() override;
  DeviceAllReduce(const DeviceAllReduce&) = delete;
  DeviceAllReduce& operator=(const DeviceAllReduce&) = delete;

  /// Submits the exchange of one step and waits for it. Gradients and mean are device memory.
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;

  /// Submits the exchange of one step to the stream, without waiting unless codecs_through_host() names any. Having run
  /// once with the same tables, it can be captured into a graph.
  /// @param step  that keys the draws, on the device where `on_device` is set
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);
  void submit_part(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                   Stream& stream) override;
  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                               std::uint64_t step) override;
  /// [1] on the device: not 0 if the step is to be dropped, because a gradient or a mean was not finite. Where such a
  /// step stops the run, it stays so: no later update is applied before the host has looked. For StepScalars::skip.
  const std::uint32_t* skip() const { return nonfinite_->skip(); }
  /// Waits for the stream, and says what the last step submitted was like (bytes and what was not finite; no times).
  /// @throws NonFiniteError if asked to stop on NaN or infinity, which any step since the first may have held, not only
  /// the last
  ExchangeReport report(std::uint64_t step);
  ExchangeReport bytes() const override;
  /// Submits the beginning of a new run: what an earlier one met that was not finite is forgotten.
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
  std::vector<Slice> whole_;  // every tensor
  Stream stream_;
  std::shared_ptr<DeviceCommunicator> communicator_;
  std::vector<WorkerRange> ranks_;  // the workers of each
  ExchangeAlgorithm algorithm_;
  std::vector<std::unique_ptr<DevicePayloads>> payloads_;  // that together serve all groups of the plan
  std::vector<std::unique_ptr<Coder>> coders_;             // one per group of the plan
  std::vector<DeviceGather> scaler_gathers_;               // one per coder
  std::unique_ptr<DeviceDownlink> downlink_;
  std::unique_ptr<DeviceMeanCheck> mean_check_;
  std::shared_ptr<DeviceNonfinite> nonfinite_;
  bool has_sent_ = false;  // a step was submitted
};

}  // namespace terngrad
