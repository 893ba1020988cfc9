// LowRankRound: two rounds of an exchange, with thin factors in place of low-rank tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_rounds.h"

namespace terngrad {

class MeanCheck;

/// PowerSGD (Vogels et al., NeurIPS 2019; compress/codecs/powersgd_codec.h) for the tensors with that codec, beside
/// tensors with other codecs. Runs two rounds:
/// 1. the encoded gradients of all other tensors, and P_k = M_k Q of each worker k, as fp32 or bf16. Every rank makes
///    the mean of P_k orthonormal, P, and rounds it to the type of the factors;
/// 2. Q_k = M_k^T P, in the same type. The mean gradient is P Q^T, and P Q_k^T counts as sent by worker k, with Q_k as
///    rounded.
/// The second round exchanges floats only: integer_sum becomes all_gather, and downlink codecs other than bf16 become
/// fp32. Otherwise both use the options of the whole exchange, so algorithms, servers, the downlink and sums over
/// subtrees work as for fp32. The result's bits do not depend on them (contract B2), nor on other tensors of the part.
///
/// If the step is not dropped, both factors of a worker's non-finite tensor count as zeros, as does a factor that
/// overflows its type; memories keep their state of such a tensor. Gradients must be float32, as they are behind a
/// memory; others are refused. On a GPU the second round is submitted even if a gradient of the first was not finite,
/// since the host does not know; such a step changes no state.
class LowRankRound final : public PartExchange {
 public:
  /// @param plan  of the layout's tensors, of which some are of low rank
  /// @throws InvalidArgument as Round, and for an update of shards, whose owners lack whole tensors
  LowRankRound(const Layout& layout, const CodecPlan& plan, const PartContext& context, std::vector<int> numbers);
  ~LowRankRound() override;

  void run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step, Stream& stream,
           PartClock& clock) override;
  ExchangeBytes bytes() const override { return bytes_; }
  float decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) override;
  void update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     Stream& stream) override;
  void commit(Stream& stream) override;
  std::vector<const Round*> rounds() const override { return {first_.get(), second_.get()}; }

 private:
  Layout layout_;
  std::uint64_t seed_;
  bool drops_nonfinite_steps_;
  WorkerRange workers_;
  FactorRounds factors_;
  NonfiniteFlags& flags_;
  std::unique_ptr<Round> first_, second_;
  std::unique_ptr<MeanCheck> mean_check_;  // for low-rank tensors
  ExchangeBytes bytes_;
  bool has_run_ = false;  // the last step ran to its end
};

}  // namespace terngrad
