// Strategy: combines the local workers' gradients into the gradient that every replica applies.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/on_nonfinite.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

class BucketedExchange;
class FactorState;
class WorkerMemory;

/// Result of Strategy::combine besides the mean gradient.
struct StrategyResult {
  bool skip = false;  // true if no update is to be applied in this step
  ExchangeReport report;
};

/// Combines the gradients of the local workers, and of other ranks' workers, into one mean gradient per step.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual const std::string& name() const = 0;

  /// Computes the mean gradient of a step. Collective if the run has several ranks.
  /// @param gradients  one table of tensors per local worker
  /// @param mean       [flat elements] out: the gradient to apply, padding untouched
  /// @throws NonFiniteError for NaN or infinity with OnNonfinite::kStop
  virtual StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t step) = 0;

  /// The exchange that `combine` would do in this step, for use bucket by bucket while gradients are still being
  /// computed; nullptr if the strategy needs whole gradients. Its report equals that of `combine`; if `skipped` is set
  /// in it, no update is to be applied.
  virtual BucketedExchange* in_buckets(std::uint64_t /*step*/) { return nullptr; }

  /// Decodes what local worker `worker` sent of tensor `segment` in the last step. @param out  [elements of the tensor]
  /// @returns the scaler, as GradientExchange::decode_local
  virtual float decode_sent(int worker, int segment, std::span<float> out) = 0;

  /// The tensor that local worker `worker` encoded in the last step: its gradient, compensated by the memory. Empty if
  /// no memory covers the tensor: the gradient itself was encoded.
  virtual std::span<const float> encoded(int /*worker*/, int /*segment*/) { return {}; }
  /// Memory of the local workers; nullptr for none.
  virtual WorkerMemory* memory() { return nullptr; }
  /// See GradientExchange::factors; nullptr for none.
  virtual FactorState* factors() { return nullptr; }
};

/// A strategy for one worker whose gradient is applied unchanged: no compression, no messages. NaN and infinity are
/// treated as in an exchange.
std::unique_ptr<Strategy> make_simple_strategy(const Layout& layout, OnNonfinite on_nonfinite = OnNonfinite::kStop);

/// Synchronous data parallelism: every replica applies the mean gradient of the exchange. Wen et al., NIPS 2017,
/// algorithm 1, with parameters held by the workers.
std::unique_ptr<Strategy> make_replicated_strategy(const Layout& layout, std::unique_ptr<GradientExchange> exchange);

}  // namespace terngrad
