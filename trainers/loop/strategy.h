// Strategy: from the local workers' gradients to the gradient that every replica applies.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compress/exchange/bucketed_exchange.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/on_nonfinite.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

class FactorState;
class WorkerMemory;

/// What the optimizer is to apply after a step.
struct StrategyResult {
  bool skip = false;  // apply nothing in this step
  ExchangeReport report;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual const std::string& name() const = 0;

  /// @param gradients  one flat buffer per local worker
  /// @param mean       [flat elements] out: the gradient to apply, padding untouched
  /// @throws NonFiniteError if asked to stop on NaN or infinity
  virtual StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t step) = 0;

  /// The exchange that `combine` does in this step, to be done in buckets while gradients are still being computed;
  /// nullptr if the strategy takes whole gradients only. Its report is that of `combine`, and `skipped` in it says
  /// whether to apply nothing.
  virtual BucketedExchange* in_buckets(std::uint64_t /*step*/) { return nullptr; }

  /// What local worker `worker` sent of tensor `segment` in the last step. @param out [elements of the tensor]
  /// @returns as GradientExchange::decode_local
  virtual float decode_sent(int worker, int segment, std::span<float> out) = 0;

  /// What a memory made of local worker `worker`'s gradient in the last step, for the message that decode_sent decodes.
  /// Empty: the gradient itself was encoded.
  virtual std::span<const float> encoded(int /*worker*/, int /*segment*/) { return {}; }
  /// What local workers keep from step to step; nullptr: nothing.
  virtual WorkerMemory* memory() { return nullptr; }
  /// GradientExchange::factors.
  virtual FactorState* factors() { return nullptr; }
};

/// One worker whose gradient is applied as it is: no compression, no messages. NaN and infinity are treated as an
/// exchange of one worker treats them.
std::unique_ptr<Strategy> make_simple_strategy(const Layout& layout, OnNonfinite on_nonfinite = OnNonfinite::kStop);

/// Synchronous data parallelism: every replica applies the mean that the exchange gives. Wen et al., NIPS 2017,
/// algorithm 1, with parameters held by the workers.
std::unique_ptr<Strategy> make_replicated_strategy(const Layout& layout, std::unique_ptr<GradientExchange> exchange);

}  // namespace terngrad
