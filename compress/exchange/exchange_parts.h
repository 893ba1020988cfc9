// ExchangeParts: an exchange in parts (sets of tensors) that are not known beforehand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/exchange/part_list.h"
#include "compress/memory/factor_state.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {

/// Mean of all workers' gradients, exchanged in any sets of tensors that become ready together: for callers that form
/// buckets themselves and may form new ones in every step, as PyTorch's DistributedDataParallel does. The mean and each
/// worker's payloads are bit-identical to those of one exchange of all tensors (BucketedAllReduce, or with a memory
/// MemoryAllReduce) for any parts, because codecs, draws and state belong to tensors (contract B2).
class ExchangeParts {
 public:
  /// @param plan    of all tensors of the layout, made for workers.num_workers; options.codecs is ignored
  /// @param memory  state that workers keep from step to step, such as error feedback
  /// @throws InvalidArgument as CompressedAllReduce and MemoryAllReduce do, and for an update of shards
  ExchangeParts(const Layout& layout, CodecPlan plan, WorkerGroup workers, const CompressedAllReduceOptions& options,
                const MemoryOptions& memory = {});
  ExchangeParts(const ExchangeParts&) = delete;
  ExchangeParts& operator=(const ExchangeParts&) = delete;

  const Layout& layout() const { return parts_.layout(); }
  const CodecPlan& plan() const { return parts_.plan(); }
  const WorkerGroup& workers() const { return workers_; }
  /// Memory of this process's workers; nullptr if there is none.
  WorkerMemory* memory() { return memory_.has_value() ? &*memory_ : nullptr; }
  /// State of low-rank tensors, equal on all ranks.
  FactorState& factors() { return factors_; }

  /// Layout of a part, for which the part's tables are made. Valid until finish.
  /// @throws InvalidArgument as PartList::of
  const Layout& layout_of(std::span<const int> segments);

  /// Begins a step, even if the previous one was not finished. @param step  the same on all ranks; keys the random
  /// draws
  void begin(std::uint64_t step);

  /// Exchanges some tensors, whose gradients are final in all local workers. All ranks must exchange the same parts in
  /// the same order; messages of other parts are refused by their fingerprint.
  /// @param segments   the tensors' indices in the layout, in any order
  /// @param gradients  one table per local worker, for layout_of(segments)
  /// @param mean       out: float32 table for layout_of(segments); may be the gradients of a local worker.
  ///                   OnNonfinite::kZero counts a worker's non-finite tensor as zeros; with the other policies the
  ///                   mean is unspecified if a tensor is not finite
  /// @returns bytes and times of this part; `nonfinite` describes the non-finite tensors found in it
  /// @throws InvalidArgument outside of a step, or for a tensor that was already exchanged in this step;
  /// CommunicationError as GradientExchange::exchange. The step then cannot be finished, and memories keep their state
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);

  /// Ends the step. Tensors that were not exchanged in it keep their state, and a dropped step changes no state.
  /// @returns the report of all parts. @throws NonFiniteError with OnNonfinite::kStop if any part held NaN or infinity;
  /// InvalidArgument outside of a step
  ExchangeReport finish();

  /// GradientExchange::decode_local for a tensor that was exchanged in the last step.
  float decode_local(int local_worker, int segment, std::span<float> out);

 private:
  void require_step() const;

  WorkerGroup workers_;
  CompressedAllReduceOptions options_;
  PartList<PartExchange> parts_;
  Stream stream_;
  NonfiniteFlags flags_;
  FactorState factors_;
  std::optional<WorkerMemory> memory_;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
  bool has_sent_ = false;    // at least one step is finished, and the last one was not dropped
  ExchangeReport report_;
};

}  // namespace terngrad
