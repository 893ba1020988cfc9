// MemoryAllReduce: a compressed all-reduce with error feedback, momentum or DGC.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {

/// BucketedAllReduce of the gradients that a WorkerMemory has compensated. The memory lies above the buckets and is
/// updated by finish, only if the step is not dropped. An exchange that throws leaves the memory unchanged.
class MemoryAllReduce final : public GradientExchange, public BucketedExchange {
 public:
  /// @param memory  a kind other than MemoryKind::kNone
  /// @throws InvalidArgument as BucketedAllReduce does, and if all tensors have lossless codecs, so that no memory is
  /// needed
  MemoryAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options,
                  Buckets buckets, const MemoryOptions& memory);

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  /// Decodes the message, which encodes the compensated gradient.
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
  double compensate_seconds_ = 0;  // in the current step
};

}  // namespace terngrad
