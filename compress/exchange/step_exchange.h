// StepExchange: the exchange of a step in parts (sets of tensors) that need not be known beforehand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/factor_state.h"
#include "compress/memory/worker_memory.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/exchange_report.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/device_step.h"

namespace terngrad {

/// Exchanges gradients whose tensors become ready one after the other: begin, exchange once for each part, finish. The
/// mean, messages' payloads and state have the same bits whatever the parts are, because tensors keep their codecs and
/// random draws (contract B2). Byte counts differ: each part has messages with headers of its own, scatter_reduce cuts
/// shards within parts, and kAuto chooses per part. One part of all tensors, in the order of the layout,
/// sends the messages of a CompressedAllReduce. Parts may change from step to step; a part is kept as long as every
/// step uses it. Tensors need not be exchanged in every step.
///
/// State from step to step lies above the parts and is updated by finish, only if the step is not dropped: the workers'
/// memory (compress/memory/worker_memory.h), and the factors of low-rank tensors (compress/memory/factor_state.h).
///
/// If a part is not finite and the step is to be dropped, the other parts are exchanged nevertheless, so the messages
/// do not depend on timing. Errors name non-finite tensors as if there were one part.
///
/// On a GPU, calls submit work to the stream without waiting, unless a codec goes through the host; report and
/// decode_local wait. A step whose parts differ from those of the step before allocates memory, and frees that of
/// unused parts, which waits for the GPU. Not thread-safe, but successive calls may come from different threads.
class StepExchange {
 public:
  /// @param plan    of the layout's tensors, made for all workers
  /// @param peers   as in CompressedAllReduce
  /// @param stream  of the gradients' memory: the caller's (Stream::borrow), or one of its own
  /// @param memory  of the workers; MemoryKind::kNone for none
  /// @throws InvalidArgument as CompressedAllReduce and WorkerMemory do, and for an update of shards, which could not
  /// be undone if a later part drops the step
  StepExchange(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
               const CompressedAllReduceOptions& options, const Stream& stream, const MemoryOptions& memory = {});
  /// On the CPU, with options.num_threads threads.
  StepExchange(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
               const CompressedAllReduceOptions& options, const MemoryOptions& memory = {});
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  const Layout& layout() const { return layout_; }
  const CodecPlan& plan() const { return plan_; }
  const WorkerGroup& workers() const { return peers_.group; }
  /// Memory of this process's workers, on the stream's device; nullptr if there is none.
  WorkerMemory* memory() { return memory_.has_value() ? &*memory_ : nullptr; }
  /// State of low-rank tensors, equal on all ranks, on the stream's device.
  FactorState& factors() { return factors_; }

  /// Layout of a part, for which the part's tables are made. Valid until finish.
  /// @param segments  indices of its tensors in the layout, in any order
  /// @throws InvalidArgument for an empty list, an unknown or repeated tensor, or only some of the tensors of a codec
  /// that needs all of its tensors at once (CodecTraits::per_tensor)
  const Layout& layout_of(std::span<const int> segments) { return part_of(segments).layout; }

  /// Begins a step, even if the previous one was not finished. @param step  the same on all ranks; keys the random
  /// draws
  void begin(std::uint64_t step);

  /// Exchanges some tensors, whose gradients are final in all local workers. All ranks must exchange the same parts in
  /// the same order; messages of other parts are refused by their fingerprint.
  /// @param gradients  one table per local worker, for layout_of(segments)
  /// @param mean       out: float32 table for layout_of(segments); may be the gradients of a local worker.
  ///                   OnNonfinite::kZero counts a worker's non-finite tensor as zeros; with the other policies the
  ///                   mean is unspecified if a tensor is not finite
  /// @returns bytes of this part, and on the CPU its times and in `nonfinite` the non-finite tensors found in it
  /// @throws InvalidArgument outside of a step, or for a tensor that was already exchanged in this step;
  /// CommunicationError as GradientExchange::exchange. The step then cannot be finished, and memories keep their state
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);

  /// Ends the step. Tensors that were not exchanged in it keep their state, and a dropped step changes no state.
  /// @returns the report of all parts; on a GPU their bytes
  /// @throws InvalidArgument outside of a step; on the CPU NonFiniteError with OnNonfinite::kStop if any part held NaN
  /// or infinity
  ExchangeReport finish();
  /// On a GPU, after finish: waits for the stream and returns the report of the last step, without times.
  /// @throws NonFiniteError as finish on the CPU
  ExchangeReport report();
  /// [1] on the device: nonzero once a part of the step was not finite and the step is to be dropped.
  const std::uint32_t* skip() const { return flags_.skip(); }

  /// GradientExchange::decode_local for a tensor that was exchanged in the last step; decodes on the host.
  /// @param out  host memory
  float decode_local(int local_worker, int segment, std::span<float> out);

 private:
  /// A set of tensors and its exchange, which is created at first use.
  struct Part {
    std::vector<int> segments;
    Layout layout;
    std::unique_ptr<PartExchange> exchange = nullptr;
    bool is_used = false;                   // in the current step
    std::vector<TensorTable> encoded = {};  // compensated gradients of the current step, if workers have a memory
  };
  /// The part in which a tensor was exchanged in this step.
  struct Place {
    Part* part = nullptr;
    int segment = 0;  // in the part's layout
  };
  /// True if these are all tensors, in the order of the layout: such a part has the layout and plan unchanged.
  bool is_whole(std::span<const int> segments) const;
  Part& part_of(std::span<const int> segments);
  std::unique_ptr<PartExchange> make_exchange(const Part& part);
  void run(Part& part, std::span<const TensorTable> gradients, const TensorTable& mean, PartClock& clock);
  void require_step() const;
  bool is_on_cpu() const { return stream_.device().is_cpu(); }

  Layout layout_;
  CodecPlan plan_;
  ExchangePeers peers_;
  CompressedAllReduceOptions options_;
  Stream stream_;
  NonfiniteFlags flags_;
  FactorState factors_;
  std::optional<WorkerMemory> memory_;
  std::map<std::vector<int>, Part> parts_;
  // State of the current step.
  std::vector<Place> places_;  // one per tensor
  std::uint64_t step_ = 0;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
  ExchangeReport report_;
};

}  // namespace terngrad
