// LowRankAllReduce: the mean of all workers' gradients, of some tensors by thin factors in two rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_rounds.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// The options of a round that has numbers only: what does not add up as integers goes by all_gather, and comes back as
/// numbers.
CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options);

/// PowerSGD (Vogels et al., NeurIPS 2019; compress/codecs/powersgd_codec.h) for the tensors that have its codec, beside
/// others with theirs. Two exchanges (CompressedAllReduce):
/// 1. of what other tensors' codecs make of them, and of P_k = M_k Q of each worker k, as fp32 or bf16. Every rank
///    makes the mean of these orthonormal, P, and rounds it to what factors travel as;
/// 2. of Q_k = M_k^T P, in the same type. The mean gradient is P Q^T, and what a worker has sent counts as P Q_k^T, of
///    Q_k as it was rounded.
/// Both have the options of the whole, so algorithms, servers, the downlink and sums over subtrees work as for fp32,
/// and bits do not depend on them (contract B2), nor on what else is in the part.
///
/// Where the step is not dropped, of a worker's tensor that is not finite both factors count as zeros, as does a factor
/// that leaves the range of its type; nothing of such a tensor is kept. Gradients are of float32, as behind a memory;
/// others are refused.
class LowRankAllReduce final : public PartExchange {
 public:
  /// @param plan     of the layout's tensors, of which some are of low rank
  /// @param factors  of all tensors of the step; outlives this
  /// @throws InvalidArgument as CompressedAllReduce, and for an update of shards, whose owners have no whole tensors
  LowRankAllReduce(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers,
                   const CompressedAllReduceOptions& options, FactorState& factors);

  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step,
                               NonfiniteTensors& found) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                     std::span<const TensorTable> kept) override;
  void commit() override;
  std::vector<const CompressedAllReduce*> exchanges() const override { return {first_.get(), second_.get()}; }

 private:
  void write_mean(const TensorTable& mean, NonfiniteTensors& found);

  Layout layout_;
  CompressedAllReduceOptions options_;
  int num_local_workers_;
  FactorRounds factors_;
  std::unique_ptr<CompressedAllReduce> first_, second_;
  Stream stream_;
  bool has_sent_ = false;  // the last step was not dropped before its end
};

}  // namespace terngrad
