// BucketedAllReduce: an exchange for each bucket of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucketed_exchange.h"
#include "compress/exchange/bucketed_layout.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_state.h"

namespace terngrad {

/// Mean of all workers' gradients, exchanged bucket by bucket. The mean and each worker's payload of a tensor are
/// bit-identical to those of one CompressedAllReduce for any buckets (contract B2), because tensors keep their codecs
/// and random draws. Byte counts differ: each bucket has messages with headers of its own, scatter_reduce cuts shards
/// within buckets, and kAuto chooses per bucket. A single bucket sends exactly the messages of a CompressedAllReduce.
/// All ranks need the same buckets; messages of other buckets are refused by their fingerprint.
///
/// If a bucket is not finite and the step is to be dropped, the other buckets are exchanged nevertheless, so the
/// messages do not depend on timing. Errors name non-finite tensors as if there were one bucket.
class BucketedAllReduce final : public GradientExchange, public BucketedExchange {
 public:
  /// @throws InvalidArgument as CompressedAllReduce does; for buckets that check_buckets refuses; for several buckets
  /// with a codec that needs all tensors at once (CodecTraits::per_tensor)
  BucketedAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options,
                    Buckets buckets);

  /// Codec plan of all tensors.
  const CodecPlan& plan() const { return layout_.plan(); }
  /// Exchange of the tensors of one bucket.
  const PartExchange& exchange_of(std::size_t bucket) const { return *parts_.at(bucket).exchange; }

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  BucketedExchange* in_buckets() override { return this; }
  FactorState* factors() override { return &factors_; }

  /// PartExchange::update_memory of all buckets; the tables hold all tensors.
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept);

  const Buckets& buckets() const override { return layout_.buckets(); }
  void begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  ExchangeReport exchange_bucket(int bucket) override;
  ExchangeReport finish() override;

 private:
  struct Part {
    std::unique_ptr<PartExchange> exchange;
    std::vector<TensorTable> gradients;  // one per local worker, for the current step
    TensorTable mean;
  };

  BucketedLayout layout_;
  CompressedAllReduceOptions options_;
  int num_workers_;
  int num_local_workers_;
  Stream stream_;
  NonfiniteFlags flags_;
  FactorState factors_;
  std::vector<Part> parts_;  // one per bucket
  // State of the current step.
  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // next bucket to exchange
  bool is_begun_ = false;
  bool has_sent_ = false;  // at least one step is finished, and the last one was not dropped
  ExchangeReport report_;
};

}  // namespace terngrad
