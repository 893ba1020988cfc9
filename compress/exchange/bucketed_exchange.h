// BucketedExchange: an exchange in parts, for gradients whose tensors become ready one after the other.
#pragma once

#include <cstdint>
#include <span>

#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/gradient_exchange.h"

namespace terngrad {

/// begin, exchange_bucket for every bucket in order, and finish together do the same as GradientExchange::exchange,
/// with the same bits and report. Not thread-safe, but successive calls may come from different threads.
class BucketedExchange {
 public:
  virtual ~BucketedExchange() = default;

  virtual const Buckets& buckets() const = 0;

  /// Begins a step, even if the previous one was not finished. Arguments as GradientExchange::exchange. The memory
  /// behind the tables must outlive the step; gradients need not be computed yet.
  virtual void begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) = 0;

  /// Exchanges the tensors of a bucket; their gradients must be final in all local workers. Afterwards the mean of
  /// these tensors is final, unless finish drops the step.
  /// @returns the bucket's part of the step's report
  /// @throws InvalidArgument if `bucket` is not the next one, CommunicationError as GradientExchange::exchange
  virtual ExchangeReport exchange_bucket(int bucket) = 0;

  /// Ends the step. @throws InvalidArgument unless all buckets are exchanged; NonFiniteError with OnNonfinite::kStop if
  /// any bucket held NaN or infinity
  virtual ExchangeReport finish() = 0;
};

}  // namespace terngrad
