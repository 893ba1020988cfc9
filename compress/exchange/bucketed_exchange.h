// BucketedExchange: an exchange in parts, for gradients whose tensors become ready one after the other.
#pragma once

#include <cstdint>
#include <span>

#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/gradient_exchange.h"

namespace terngrad {

/// begin, exchange_bucket for every bucket in order, and finish are together what GradientExchange::exchange does, with
/// the same bits and report. One call at a time; they may come from different threads.
class BucketedExchange {
 public:
  virtual ~BucketedExchange() = default;

  virtual const Buckets& buckets() const = 0;

  /// Begins a step, after whatever became of the one before. Arguments as GradientExchange::exchange; what the tables
  /// point to outlives the step, and its tensors may still hold anything.
  virtual void begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) = 0;

  /// Exchanges the tensors of a bucket, whose gradients are final in all local workers. The mean of these tensors is
  /// final afterwards, unless finish drops the step.
  /// @returns the bucket's part of the step's report
  /// @throws InvalidArgument if `bucket` is not the next one, CommunicationError as GradientExchange::exchange
  virtual ExchangeReport exchange_bucket(int bucket) = 0;

  /// Ends the step. @throws InvalidArgument unless all buckets are exchanged; NonFiniteError if asked to stop and any
  /// of them held NaN or infinity
  virtual ExchangeReport finish() = 0;
};

}  // namespace terngrad
