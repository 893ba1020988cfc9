// DeviceBucketedAllReduce: an exchange per bucket of tensors, overlapped with the backward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucketed_layout.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_state.h"
#include "kernels/runtime/stream_fork.h"

namespace terngrad {

/// BucketedAllReduce for gradients in GPU memory, with the same bits (contract B2). Byte counts are those of one
/// CompressedAllReduce, except that shards of scatter_reduce are cut within buckets, with the size of the largest shard
/// for each, and that kAuto chooses per bucket. All ranks need the same buckets, and submit the operations of the
/// buckets in the same order.
///
/// With a fork, buckets are exchanged in its branch, each once the stream has reached the point where it was submitted;
/// the stream waits for the branch in finish. No memory is accessed concurrently, within a step or between two steps,
/// directly or replayed from a graph:
///  - gradients: the branch reads a bucket after all work that the stream got before submit_bucket. Work submitted to
///    the stream before finish must not write them; the next step writes them after finish;
///  - mean and non-finite flags: written in the branch only, bucket after bucket, and read by the stream after finish.
///    The next step's first bucket waits for its own gradients, which the stream computes after those reads;
///  - scalers, payloads and tables: separate per bucket, and used in the branch only. The calls below that read them
///    for the host do so in the stream, after finish;
///  - factors of low-rank tensors: written in the branch. update_memory reads them in the stream, where finish stores
///    Q for the next step; that step's first bucket reads Q in the branch, ordered after the stream as for the mean;
///  - step number in device memory: read in the branch, to be incremented in the stream after finish.
class DeviceBucketedAllReduce final : public GradientExchange {
 public:
  /// @param workers, options, stream, communicator  as CompressedAllReduce
  /// @param fork  fork of `stream`, whose first branch is used; null: everything runs in the stream. Exchanges with the
  ///              same communicator must share one fork
  /// @throws InvalidArgument as CompressedAllReduce and BucketedLayout do; NotSupported as CompressedAllReduce does
  DeviceBucketedAllReduce(const Layout& layout, const WorkerRange& workers, const CompressedAllReduceOptions& options,
                          Buckets buckets, const Stream& stream,
                          const std::shared_ptr<DeviceCommunicator>& communicator = make_self_device_communicator(),
                          std::shared_ptr<StreamFork> fork = nullptr);

  /// Codec plan of all tensors.
  const CodecPlan& plan() const { return layout_.plan(); }
  const Buckets& buckets() const { return layout_.buckets(); }
  /// As CompressedAllReduce: each name once, sorted.
  std::set<std::string> codecs_through_host() const;
  /// True if buckets are exchanged in a branch, concurrently with the stream.
  bool overlaps() const { return fork_ != nullptr; }

  /// Submits the exchange of one step to the stream, without using the fork, and waits for it.
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  /// In GPU memory.
  FactorState* factors() override { return &factors_; }

  /// Submits the exchange of one step, bucket after bucket: begin, submit_bucket for all, and finish.
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);

  /// Begins a step; submits nothing. Arguments as CompressedAllReduce::submit; gradients need not be computed yet.
  void begin(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);
  /// Submits the exchange of a bucket; its gradients must be final after the work submitted to the stream so far. After
  /// a first run with the same tables, a step can be captured into a graph of the stream.
  /// @throws InvalidArgument if `bucket` is not the next one
  void submit_bucket(int bucket);
  /// Ends a step: work submitted to the stream from here on runs after all buckets. Updates the state that is equal on
  /// all ranks, unless the step is to be dropped.
  /// @throws InvalidArgument unless all buckets are submitted
  void finish();
  /// PartExchange::update_memory of all buckets, in the stream; call it after finish. The tables hold all
  /// tensors.
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept);
  /// Aborts a step that cannot be finished: the stream waits for the buckets submitted so far.
  void cancel() noexcept;

  // As in CompressedAllReduce; call them after finish.
  const std::uint32_t* skip() const { return flags_.skip(); }
  ExchangeReport report(std::uint64_t step);
  ExchangeReport bytes() const;
  void forget_nonfinite() { flags_.forget(stream_); }

 private:
  struct Part {
    std::unique_ptr<PartExchange> exchange;
    std::vector<TensorTable> gradients;  // one per local worker, for the current step
    TensorTable mean;
  };

  void apply_policy(std::uint64_t step, ExchangeReport& report);

  BucketedLayout layout_;
  int num_workers_;
  int num_local_workers_;
  Stream stream_;
  std::shared_ptr<StreamFork> fork_;
  Stream exchange_stream_;  // the fork's branch, or the stream
  NonfiniteFlags flags_;
  FactorState factors_;
  std::vector<Part> parts_;  // one per bucket
  // State of the current step.
  DeviceStep step_;
  std::size_t next_ = 0;  // next bucket to submit
  bool is_begun_ = false;
  bool is_forked_ = false;  // the stream must still wait for the branch
};

}  // namespace terngrad
