// LowRankAllReduce: the mean of all workers' gradients, of some tensors by thin factors in two rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_state.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/buffer.h"

namespace terngrad {

/// The options of a round that has numbers only: what does not add up as integers goes by all_gather, and comes back as
/// numbers.
CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options);

/// PowerSGD (Vogels et al., NeurIPS 2019; compress/codecs/powersgd_codec.h) for the tensors that have its codec, beside
/// others with theirs. Two exchanges (CompressedAllReduce):
/// 1. of what other tensors' codecs make of them, and of P_k = M_k Q of each worker k, as fp32. Every rank makes the
///    mean of these orthonormal, P;
/// 2. of Q_k = M_k^T P, as fp32. The mean gradient is P Q^T, and what a worker has sent counts as P Q_k^T.
/// Both have the options of the whole, so algorithms, servers, the downlink and sums over subtrees work as for fp32,
/// and bits do not depend on them (contract B2), nor on what else is in the part.
///
/// Where the step is not dropped, of a worker's tensor that is not finite both factors count as zeros, as does a factor
/// that leaves the range of float32; nothing of such a tensor is kept. Gradients are of float32, as behind a memory;
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
  void keep(Kept what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept) override;
  void commit() override;
  std::vector<const CompressedAllReduce*> exchanges() const override { return {first_.get(), second_.get()}; }

 private:
  struct Tensor {
    int segment = 0;  // in the layout, and in that of the first exchange
    FactorSizes sizes;
    std::int64_t draw_offset = 0;
    float* kept = nullptr;      // in the state, or null: drawn in each step
    std::int64_t p_offset = 0;  // in buffers of P^T and Q^T
    std::int64_t q_offset = 0;
    std::int64_t num_q() const { return sizes.rank * sizes.columns; }
    std::int64_t num_p() const { return sizes.rank * sizes.rows; }
  };
  /// Whether a worker's factors of a tensor count as zeros.
  std::uint8_t& is_zero(std::size_t worker, std::size_t tensor) { return is_zero_[worker * tensors_.size() + tensor]; }
  /// Q to begin the step with: as it was kept, columns of zeros drawn.
  void begin_factors(std::uint64_t step);
  TensorTable with_factors(const TensorTable& whole, float* p) const;
  void multiply_columns(std::span<const TensorTable> gradients);
  void multiply_rows(std::span<const TensorTable> gradients);
  void write_mean(const TensorTable& mean, NonfiniteTensors& found);
  /// Elements of P Q_k^T. @param q  Q_k^T of the tensor
  void elements(const Tensor& tensor, const float* q, std::int64_t first, std::span<float> out) const;
  const Tensor* find(int segment) const;

  Layout layout_;
  LowRankRounds rounds_;
  CompressedAllReduceOptions options_;
  int num_local_workers_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<CompressedAllReduce> first_, second_;
  Stream stream_;
  LowRankProducts products_;
  Buffer<float> begun_q_, mean_p_, mean_q_;
  std::vector<Buffer<float>> own_p_, own_q_;  // one per local worker
  std::vector<std::uint8_t> is_zero_;
  bool has_sent_ = false;  // the last step was not dropped before its end
};

}  // namespace terngrad
