// MemoryAllReduce: a compressed all-reduce whose workers keep something from step to step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {

/// BucketedAllReduce of what a WorkerMemory makes of gradients: error feedback, or momentum before a codec. State is
/// kept above the buckets, and changes when a step is settled: by finish, and only if the step is not dropped. A step
/// whose exchange throws leaves it as it was.
class MemoryAllReduce final : public GradientExchange, public BucketedExchange {
 public:
  /// @param memory  not none
  /// @throws InvalidArgument as BucketedAllReduce does, and where all tensors' codecs lose nothing: there is nothing to
  /// keep
  MemoryAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options,
                  Buckets buckets, const MemoryOptions& memory);

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  /// Of what was encoded: the compensated gradient.
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  BucketedExchange* in_buckets() override { return this; }
  WorkerMemory* memory() override { return &memory_; }
  FactorState* factors() override { return exchange_.factors(); }

  const Buckets& buckets() const override { return exchange_.buckets(); }
  void begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  ExchangeReport exchange_bucket(int bucket) override;
  ExchangeReport finish() override;

  const BucketedAllReduce& all_reduce() const { return exchange_; }

 private:
  BucketedAllReduce exchange_;
  WorkerMemory memory_;
  Stream stream_;
  double compensate_seconds_ = 0;  // of the step
};

}  // namespace terngrad
