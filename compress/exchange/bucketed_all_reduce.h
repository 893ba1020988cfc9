// BucketedAllReduce: an exchange for each bucket of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/exchange/bucketed_exchange.h"
#include "compress/exchange/bucketed_layout.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_state.h"

namespace terngrad {

/// The mean of all workers' gradients, exchanged bucket by bucket. Its bits, and what each worker sends of a tensor,
/// are those of one CompressedAllReduce for any buckets (contract B2): tensors keep their codecs and draws. Bytes are
/// not quite: every bucket has messages of its own, each with a header, shards of scatter_reduce are cut within
/// buckets, and kAuto chooses for each bucket. A single bucket has the very messages of a CompressedAllReduce. All
/// ranks need the same buckets; messages of others are refused by their fingerprint.
///
/// If a bucket is not finite and the step is to be dropped, other buckets travel nevertheless: which were exchanged
/// before does not depend on time. What was found is named as if there were one bucket.
class BucketedAllReduce final : public GradientExchange, public BucketedExchange {
 public:
  /// @throws InvalidArgument as CompressedAllReduce does; for buckets that check_buckets refuses; for several buckets
  /// with a codec that needs all tensors at once (CodecTraits::per_tensor)
  BucketedAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options,
                    Buckets buckets);

  /// Of all tensors.
  const CodecPlan& plan() const { return layout_.plan(); }
  /// Of the tensors of one bucket.
  const PartExchange& exchange_of(std::size_t bucket) const { return *parts_.at(bucket).exchange; }

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  BucketedExchange* in_buckets() override { return this; }
  FactorState* factors() override { return &factors_; }

  /// CompressedAllReduce::keep of all buckets, for tables of all tensors.
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept);

  const Buckets& buckets() const override { return layout_.buckets(); }
  void begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  ExchangeReport exchange_bucket(int bucket) override;
  ExchangeReport finish() override;

 private:
  struct Part {
    std::unique_ptr<PartExchange> exchange;
    std::vector<TensorTable> gradients;  // of the step, one per local worker
    TensorTable mean;
  };

  BucketedLayout layout_;
  CompressedAllReduceOptions options_;
  int num_local_workers_;
  FactorState factors_;
  std::vector<Part> parts_;  // one per bucket
  // The step.
  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // bucket
  bool is_begun_ = false;
  bool has_sent_ = false;  // a step is finished, and the last one was not dropped
  ExchangeReport report_;
  NonfiniteTensors found_;
};

}  // namespace terngrad
