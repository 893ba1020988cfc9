// CompressedAllReduce: the mean of all workers' gradients, exchanged in encoded form, whole or in parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "compress/memory/memory_options.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/exchange_report.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class SharedState;
class NonfiniteFlags;
class PartClock;
class PartExchange;
struct PartContext;
class WorkerMemory;
struct SavedState;

/// Exchanges the gradient of a step whole, by one call, or in parts (sets of tensors) while others are still being
/// computed: begin, exchange once for each part, finish. The mean, messages' payloads and state have the same bits for
/// every algorithm, any number of processes and whatever the parts are, because tensors keep their codecs and random
/// draws (contract B2), except with options.vendor_type. Byte counts differ: each part has messages with headers of its
/// own, scatter_reduce cuts shards within parts, and kAuto chooses per part. A part of all tensors, in the order of the
/// layout, is the whole gradient. Parts may change from step to step; a part is kept as long as every step uses it.
/// Tensors need not be exchanged in every step.
///
/// State from step to step lies above the parts and is updated by finish, only if the step is not dropped: the workers'
/// memory (compress/memory/worker_memory.h), and what all ranks keep alike (compress/memory/shared_state.h).
///
/// If a part is not finite and the step is to be dropped, the other parts are exchanged nevertheless, so the messages
/// do not depend on timing. Errors name non-finite tensors as if there were one part.
///
/// On a GPU, calls submit work to the stream without waiting, unless a codec goes through the host; report and
/// decode_local wait, and so does the exchange of a whole gradient. After a first step with the same parts and tables,
/// a step can be captured into a graph. A step whose parts differ from those of the step before allocates memory, and
/// frees that of unused parts, which waits for the GPU. Not thread-safe, but successive calls may come from different
/// threads.
///
/// The stream may be a branch (StreamFork) of another one: begin the fork before begin and before each part, and join
/// it after finish. Where steps are replayed from a graph of the other stream, wait for that one before report and
/// decode_local.
class CompressedAllReduce {
 public:
  /// @param peers   the workers and what connects them: a WorkerGroup for gradients in host memory, or the workers of
  ///                this rank and a DeviceCommunicator for gradients in the memory of the stream's device. With
  ///                grouped_peers, groups of workers exchange the mean of their gradients as one worker each, which has
  ///                the memory and draws of a worker
  /// @param stream  of the gradients' memory; default: the CPU with options.num_threads threads
  /// @param memory  of the workers; default: none
  /// @throws InvalidArgument for unsupported combinations, as require_supported does; what depends on
  /// the tensors of a part is refused when that is made
  CompressedAllReduce(const Layout& layout, const ExchangePeers& peers, const CompressedAllReduceOptions& options,
                      const MemoryOptions& memory = {});
  CompressedAllReduce(const Layout& layout, const ExchangePeers& peers, const CompressedAllReduceOptions& options,
                      const Stream& stream, const MemoryOptions& memory = {});
  /// Uses an existing plan, made for all workers; options.codecs is ignored.
  CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                      const CompressedAllReduceOptions& options, const Stream& stream,
                      const MemoryOptions& memory = {});
  ~CompressedAllReduce();
  CompressedAllReduce(const CompressedAllReduce&) = delete;
  CompressedAllReduce& operator=(const CompressedAllReduce&) = delete;

  const Layout& layout() const { return layout_; }
  const CodecPlan& plan() const { return plan_; }
  /// The workers whose encoded gradients are exchanged; groups, if the peers have members.
  const WorkerGroup& workers() const { return peers_.group; }
  /// False on a rank for which another one of its group exchanges; its shared state is then not updated.
  bool takes_part() const { return peers_.takes_part(); }
  /// Indices of all tensors.
  std::span<const int> all_tensors() const { return all_; }
  /// Memory of this process's workers, on the stream's device; nullptr if there is none.
  WorkerMemory* memory() { return memory_.get(); }
  /// State that is equal on all ranks, on the stream's device.
  SharedState& shared_state() { return *shared_state_; }
  /// Both as named arrays (compress/memory/saved_states.h). Valid as long as this object.
  std::vector<SavedState> states();

  /// Exchanges a whole gradient. Every process calls it in every step.
  /// @param gradients  one table per local worker, in order of global worker numbers; 16-bit elements are widened to
  ///                   float32
  /// @param mean       out: mean over all workers in float32, the same bits in every process; unspecified if the step
  ///                   is skipped. May be the gradient of a local worker if that is float32
  /// @param step       the same on all ranks; keys the random draws
  /// @throws InvalidArgument for a mean of another type, CommunicationError for a damaged or foreign message,
  /// NonFiniteError with OnNonfinite::kStop for NaN or infinity
  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step);

  /// Begins a step in parts, even if the previous one was not finished.
  void begin(std::uint64_t step) { begin(DeviceStep{step, nullptr}); }
  /// The same with a step number that a GPU may read, then with the codecs of use_codecs_of. Errors name `step.step`.
  void begin(const DeviceStep& step);
  /// On a GPU: steps whose number the GPU reads use the codecs of the stage of `step` (CodecPlan::stages), at first 0.
  /// Each stage has parts of its own, which are kept.
  void use_codecs_of(std::uint64_t step);
  /// Exchanges some tensors, whose gradients are final in all local workers. All ranks must exchange the same parts in
  /// the same order; messages of other parts are refused by their fingerprint, sums with options.vendor_type are not.
  /// @param segments   indices of the tensors in the layout, in any order
  /// @param gradients  one table of all tensors per local worker, of which those of this part are read
  /// @param mean       out: float32 table of all tensors, of which those of this part are written; may be the gradients
  ///                   of a local worker. OnNonfinite::kZero counts a worker's non-finite tensor as zeros; with the
  ///                   other policies the mean is unspecified if a tensor is not finite
  /// @returns bytes of this part, and on the CPU its times and in `nonfinite` the non-finite tensors found in it
  /// @throws InvalidArgument outside of a step; for an empty list, an unknown or repeated tensor, or one that was
  /// exchanged before in this step; for only some of the tensors of a codec that needs all of its tensors at once
  /// (CodecTraits::per_tensor), or of an exchange with an update: these leave the step as it was. CommunicationError
  /// for a damaged or foreign message: the step then cannot be finished, and memories keep their state
  ExchangeReport exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                          const TensorTable& mean);
  /// The same with tables of these tensors alone, in the order of `segments`: for layout_of(segments).
  ExchangeReport exchange_part(std::span<const int> segments, std::span<const TensorTable> gradients,
                               const TensorTable& mean);
  /// Layout of a part. Valid until finish. @throws as exchange
  const Layout& layout_of(std::span<const int> segments);
  /// Ends the step. Tensors that were not exchanged in it keep their state, and a dropped step changes no state.
  /// @returns the report of all parts; on a GPU their bytes
  /// @throws InvalidArgument outside of a step; on the CPU NonFiniteError with OnNonfinite::kStop if any part held NaN
  /// or infinity
  ExchangeReport finish();

  /// On a GPU, after finish: waits for the stream and returns the report of a step with the parts of the last one,
  /// whose work was submitted or replayed; in parts without times. @param step  number of that step, for errors
  /// @throws NonFiniteError with OnNonfinite::kStop if any step since the first held NaN or infinity
  ExchangeReport report(std::uint64_t step);
  /// Bytes of the parts of the last step.
  ExchangeBytes bytes() const { return report_; }
  /// [1] on the device, for StepScalars::skip: nonzero once a part of the step was not finite and the step is to be
  /// dropped. On a GPU, with OnNonfinite::kStop it then stays nonzero.
  const std::uint32_t* skip() const;
  /// Communicator::send_heartbeat on every communicator of the exchange.
  void send_heartbeat();
  /// Submits the start of a new run: clears the non-finite state of earlier steps.
  void forget_nonfinite();

  /// Decodes tensor `segment` of a local worker's message of the last step, for telemetry and tests; decodes on the
  /// host. With a memory, the message encodes the compensated gradient.
  /// @param out  [number of elements of the tensor] in host memory
  /// @returns the scaler that its codes are multiples of (the largest, if several); 0 if it was sent as floating-point
  /// numbers
  /// @throws InvalidArgument if local_worker or segment is out of range, out has another size, the tensor was not
  /// exchanged in the last step, or that step was skipped
  float decode_local(int local_worker, int segment, std::span<float> out);
  /// The tensor that a local worker encoded in the last step: its gradient, compensated by the memory. On the stream's
  /// device. Empty if no memory covers the tensor, so that the gradient itself was encoded.
  /// @throws InvalidArgument as decode_local, except that a skipped step has it
  std::span<const float> encoded(int local_worker, int segment) const;
  /// The mean of the workers' gradients of a group for which this rank exchanges, before the memory. On the stream's
  /// device. Empty if workers exchange themselves. @throws InvalidArgument as encoded
  std::span<const float> group_mean(int local_group, int segment) const;

  /// Makes the exchange of a part before its first step. Valid until the end of a step that does not use the part.
  /// @throws as exchange does; InvalidArgument and NotSupported as Round
  const PartExchange& part(std::span<const int> segments);
  /// The part with all tensors.
  const PartExchange& whole() { return part(all_); }
  /// Names of these parts' codecs without kernels for a GPU. The host encodes their gradients and waits for the stream,
  /// so steps cannot be captured.
  std::set<std::string> codecs_through_host(const Buckets& parts);

 private:
  struct Part;
  struct Stage;
  /// The part in which a tensor was exchanged in this step.
  struct Place {
    const Part* part = nullptr;
    int segment = 0;  // in the part's layout
  };
  bool is_whole(std::span<const int> segments) const;
  Part& part_of(std::span<const int> segments);
  std::unique_ptr<Part> make_part(const std::vector<int>& segments);
  /// Arguments of a part. @param options  of the part, which must outlive the result
  PartContext context(const CompressedAllReduceOptions& options);
  void run(Part& part, std::span<const TensorTable> gradients, const TensorTable& mean, PartClock& clock);
  void require_step() const;
  /// The result is the mean of the workers' estimates (MeanEstimate).
  bool estimates_mean() const;
  bool has_groups() const { return !peers_.members.groups.empty(); }
  void apply_policy(OnNonfinite policy, std::uint64_t step, ExchangeReport& report);
  const Place& place_of(int segment) const;
  /// A tensor of one of the tables of local workers in the last step.
  std::span<const float> tensor_of(std::span<const TensorTable> tables, int local_worker, int segment) const;
  bool is_on_cpu() const { return stream_.device().is_cpu(); }

  Layout layout_;
  CodecPlan plan_;
  ExchangePeers peers_;
  CompressedAllReduceOptions options_;
  Stream stream_;
  std::unique_ptr<NonfiniteFlags> flags_;
  std::unique_ptr<SharedState> shared_state_;
  std::unique_ptr<WorkerMemory> memory_;                    // null for none
  std::vector<int> all_;                                    // all tensors
  std::vector<std::uint64_t> first_steps_;                  // of all stages; on the CPU one, whose codecs know of all
  std::map<std::uint64_t, std::unique_ptr<Stage>> stages_;  // those that were used, by first step
  Stage* stage_ = nullptr;                                  // of the current step
  // State of the current step.
  std::vector<Place> places_;  // one per tensor
  DeviceStep step_;
  bool is_begun_ = false;
  bool has_failed_ = false;  // a part of the step threw
  bool is_timed_ = true;     // laps of a GPU's work are not measured if they may be captured
  ExchangeReport report_;
};

}  // namespace terngrad
