// DeviceBucketedAllReduce: a DevicePartExchange for each bucket of tensors, beside what still computes the others.
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
#include "compress/exchange/device/device_nonfinite.h"
#include "compress/exchange/device/device_part_exchange.h"
#include "compress/memory/factor_state.h"
#include "kernels/runtime/stream_fork.h"

namespace terngrad {

/// BucketedAllReduce for gradients in a GPU's memory, with its bits (contract B2). Bytes are those of one
/// DeviceAllReduce but that shards of scatter_reduce are cut within buckets, with room for the largest of each, and
/// that kAuto chooses for each bucket. All ranks need the same buckets: they submit the operations of bucket after
/// bucket in one order.
///
/// With a fork, buckets are exchanged in its branch, each as soon as the stream has come to where it was submitted, and
/// the stream waits for the branch in finish. Nothing then runs at once on the same memory, neither within a step nor
/// between two, directly or replayed from a graph:
///  - gradients: a bucket is read in the branch after all that the stream was given before submit_bucket. What the
///    stream is given before finish may not write it; the next step does after finish;
///  - mean and the marks of what is not finite: written in the branch alone, by bucket after bucket; the stream reads
///    them after finish. The next step's first bucket writes them in the branch again, after whatever the stream was
///    given before: so after those readers, for it waits for its own gradients, which come later in the stream;
///  - scalers, payloads and tables: of each bucket by itself, and used in the branch alone; the calls below that read
///    them for the host do so in the stream, after finish;
///  - factors of tensors of low rank: written in the branch; keep reads them in the stream, where finish keeps Q
///    for the next step, whose first bucket begins with it in the branch, after the stream as for the mean;
///  - the step's number in device memory: read in the branch, to be moved on by the stream after finish.
class DeviceBucketedAllReduce final : public GradientExchange {
 public:
  /// @param workers, options, stream, communicator  as DeviceAllReduce
  /// @param fork  of `stream`, of whose branches the first is used; null: all is done in the stream. Exchanges of one
  ///              communicator share one
  /// @throws InvalidArgument as DeviceAllReduce and BucketedLayout do; NotSupported as DeviceAllReduce does
  DeviceBucketedAllReduce(const Layout& layout, const WorkerRange& workers, const CompressedAllReduceOptions& options,
                          Buckets buckets, const Stream& stream,
                          const std::shared_ptr<DeviceCommunicator>& communicator = make_self_device_communicator(),
                          std::shared_ptr<StreamFork> fork = nullptr);

  /// Of all tensors.
  const CodecPlan& plan() const { return layout_.plan(); }
  const Buckets& buckets() const { return layout_.buckets(); }
  /// As DeviceAllReduce: each name once, in order.
  std::set<std::string> codecs_through_host() const;
  /// Whether buckets are exchanged beside what the stream is given.
  bool overlaps() const { return fork_ != nullptr; }

  /// Submits the exchange of one step to the stream, without a fork, and waits for it.
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  /// In the GPU's memory.
  FactorState* factors() override { return &factors_; }

  /// Submits the exchange of one step, bucket after bucket: begin, submit_bucket for all, and finish.
  void submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);

  /// Begins a step: submits nothing. Arguments as DeviceAllReduce::submit; the tensors may still hold anything.
  void begin(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step);
  /// Submits the exchange of a bucket, whose gradients are final with what the stream was given so far. Having run once
  /// with the same tables, a step can be captured into a graph of the stream.
  /// @throws InvalidArgument if `bucket` is not the next one
  void submit_bucket(int bucket);
  /// Ends a step: what the stream is given from here on runs after all buckets, and what all ranks keep alike changes
  /// unless the step is to be dropped.
  /// @throws InvalidArgument unless all buckets are submitted
  void finish();
  /// DeviceAllReduce::keep of all buckets, for tables of all tensors, in the stream: after finish.
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept);
  /// Gives the step up where it cannot be finished: the stream waits for the buckets that were submitted.
  void cancel() noexcept;

  // As those of DeviceAllReduce, after finish.
  const std::uint32_t* skip() const { return nonfinite_->skip(); }
  ExchangeReport report(std::uint64_t step);
  ExchangeReport bytes() const;
  void forget_nonfinite() { nonfinite_->forget(stream_); }

 private:
  struct Part {
    std::unique_ptr<DevicePartExchange> exchange;
    std::vector<TensorTable> gradients;  // of the step, one per local worker
    TensorTable mean;
  };

  BucketedLayout layout_;
  int num_local_workers_;
  Stream stream_;
  std::shared_ptr<StreamFork> fork_;
  Stream exchange_stream_;  // the fork's branch, or the stream
  std::shared_ptr<DeviceNonfinite> nonfinite_;
  FactorState factors_;
  std::vector<Part> parts_;  // one per bucket
  // The step.
  DeviceStep step_;
  std::size_t next_ = 0;  // bucket
  bool is_begun_ = false;
  bool is_forked_ = false;  // the branch is to be waited for
};

}  // namespace terngrad
