// GradientExchange: local workers' gradients in, one mean gradient out.
#pragma once

#include <cstdint>
#include <span>

#include "compress/route/exchange_report.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class BucketedExchange;
class FactorState;
class WorkerMemory;

/// Top-level interface of compression. Every process calls exchange in every step.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// @param gradients  one table per local worker, in order of global worker numbers; 16-bit elements are widened to
  ///                   float32
  /// @param mean       out: mean over all workers in float32, the same bits in every process; unspecified if the step
  ///                   is skipped. May be the gradient of a local worker if that is float32
  /// @param step       the same on all ranks; keys the random draws
  /// @throws InvalidArgument for a mean of another type, CommunicationError for a damaged or foreign message,
  /// NonFiniteError with OnNonfinite::kStop for NaN or infinity
  virtual ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                  std::uint64_t step) = 0;

  /// Decodes tensor `segment` of a local worker's message of the last step, for telemetry and tests. With a memory, the
  /// message encodes the compensated gradient.
  /// @param out  [number of elements of the tensor]
  /// @returns the scaler that its codes are multiples of (the largest, if several); 0 if it was sent as floating-point
  /// numbers
  /// @throws InvalidArgument if local_worker or segment is out of range, out has another size, no step has run, or the
  /// last step was skipped
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;

  /// Interface for exchanging the gradient in buckets; nullptr if only whole gradients are supported.
  virtual BucketedExchange* in_buckets() { return nullptr; }

  /// State of this process's workers from step to step (compress/memory/worker_memory.h); nullptr if there is none.
  virtual WorkerMemory* memory() { return nullptr; }
  /// State that is equal on all ranks (compress/memory/factor_state.h); nullptr if there is none.
  virtual FactorState* factors() { return nullptr; }
};

}  // namespace terngrad
