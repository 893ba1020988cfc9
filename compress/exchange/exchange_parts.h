// ExchangeParts: an exchange in parts that are not known beforehand.
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

/// The mean of all workers' gradients, exchanged by whatever tensors become ready together: for callers that deal
/// tensors to buckets themselves and may deal them anew in every step, as PyTorch's DistributedDataParallel does. Bits,
/// and what each worker sends of a tensor, are those of one exchange of everything (BucketedAllReduce), with a memory
/// those of MemoryAllReduce, for any parts: codecs, draws and state belong to tensors (contract B2).
class ExchangeParts {
 public:
  /// @param plan     of all tensors of the layout, for a run of workers.num_workers; options.codecs is not looked at
  /// @param memory   what workers keep from step to step
  /// @throws InvalidArgument as CompressedAllReduce and MemoryAllReduce do, and for an update of shards
  ExchangeParts(const Layout& layout, CodecPlan plan, WorkerGroup workers, const CompressedAllReduceOptions& options,
                const MemoryOptions& memory = {});
  ExchangeParts(const ExchangeParts&) = delete;
  ExchangeParts& operator=(const ExchangeParts&) = delete;

  const Layout& layout() const { return parts_.layout(); }
  const CodecPlan& plan() const { return parts_.plan(); }
  const WorkerGroup& workers() const { return workers_; }
  /// What this process's workers keep from step to step; nullptr: nothing.
  WorkerMemory* memory() { return memory_.has_value() ? &*memory_ : nullptr; }
  /// What all ranks keep alike from step to step, of tensors of low rank.
  FactorState& factors() { return factors_; }

  /// The tensors of a part as a layout of their own: what its tables are made for. Valid until finish.
  /// @throws InvalidArgument as PartList::of
  const Layout& layout_of(std::span<const int> segments);

  /// Begins a step, after whatever became of the one before. @param step  the same on all ranks; keys the draws
  void begin(std::uint64_t step);

  /// Exchanges some tensors, whose gradients are final in all local workers. All ranks exchange the same parts in the
  /// same order; messages of others are refused by their fingerprint.
  /// @param segments   their numbers in the layout, in any order
  /// @param gradients  one table per local worker, of layout_of(segments)
  /// @param mean       out, of layout_of(segments): float32. May be the gradients of one of the local workers. With
  ///                   OnNonfinite::kZero a tensor that is not finite in some worker counts as zeros there; with the
  ///                   other policies the mean holds anything then
  /// @returns the part's bytes and times; in `nonfinite` what was found in it
  /// @throws InvalidArgument outside of a step, or for a tensor that was exchanged in this step; CommunicationError as
  /// GradientExchange::exchange, after which the step can neither continue nor finish: what workers keep stays as it
  /// was
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);

  /// Ends the step, of which any tensors may have been exchanged: the state of others stays as it is. Nothing is kept
  /// of a dropped step. @returns what all of its parts did. @throws NonFiniteError if asked to stop and any of them
  /// held NaN or infinity; InvalidArgument outside of a step
  ExchangeReport finish();

  /// GradientExchange::decode_local, of a tensor that was exchanged in the last step.
  float decode_local(int local_worker, int segment, std::span<float> out);

 private:
  void require_step() const;

  WorkerGroup workers_;
  CompressedAllReduceOptions options_;
  PartList<PartExchange> parts_;
  FactorState factors_;
  std::optional<WorkerMemory> memory_;
  Stream stream_;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
  bool has_sent_ = false;    // a step is finished, and the last one was not dropped
  ExchangeReport report_;
  NonfiniteTensors found_;
};

}  // namespace terngrad
