// LowRankAllReduce: mean of all workers' gradients in two rounds, with thin factors in place of low-rank tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/mean_check.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_rounds.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// Options of a round that exchanges floats only: integer_sum becomes all_gather, and downlink codecs other than bf16
/// become fp32.
CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options);

/// PowerSGD (Vogels et al., NeurIPS 2019; compress/codecs/powersgd_codec.h) for the tensors with that codec, beside
/// tensors with other codecs. Runs two exchanges (CompressedAllReduce):
/// 1. the encoded gradients of all other tensors, and P_k = M_k Q of each worker k, as fp32 or bf16. Every rank makes
///    the mean of P_k orthonormal, P, and rounds it to the type of the factors;
/// 2. Q_k = M_k^T P, in the same type. The mean gradient is P Q^T, and P Q_k^T counts as sent by worker k, with Q_k as
///    rounded.
/// Both use the options of the whole exchange, so algorithms, servers, the downlink and sums over subtrees work as for
/// fp32. The result's bits do not depend on them (contract B2), nor on other tensors of the part.
///
/// If the step is not dropped, both factors of a worker's non-finite tensor count as zeros, as does a factor that
/// overflows its type; memories keep their state of such a tensor. Gradients must be float32, as they are behind a
/// memory; others are refused.
class LowRankAllReduce final : public PartExchange {
 public:
  /// @param plan     of the layout's tensors, of which some are of low rank
  /// @param factors  state of all tensors of the step; must outlive this
  /// @param numbers  as in CompressedAllReduce
  /// @throws InvalidArgument as CompressedAllReduce, and for an update of shards, whose owners lack whole tensors
  LowRankAllReduce(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers,
                   const CompressedAllReduceOptions& options, FactorState& factors, std::vector<int> numbers = {});

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
  std::unique_ptr<MeanCheck> mean_check_;  // for low-rank tensors
  Stream stream_;
  bool has_sent_ = false;  // at least one step has run, and the last one was not dropped
};

}  // namespace terngrad
