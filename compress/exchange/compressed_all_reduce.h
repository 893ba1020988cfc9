// CompressedAllReduce: the mean of all workers' gradients, exchanged in encoded form.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/downlink_payloads.h"
#include "compress/exchange/exchange_bytes.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/mean_check.h"
#include "compress/exchange/mean_messages.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/exchange/wire_bytes.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"

namespace terngrad {

/// Measures, encodes, exchanges, aggregates and decodes the gradients of all workers on the CPU, for any of the
/// algorithms of ExchangeAlgorithm. The mean has the same bits for every algorithm and any number of processes
/// (contract B2).
class CompressedAllReduce final : public GradientExchange, public PartExchange {
 public:
  /// @throws InvalidArgument for unsupported combinations: integer_sum without a summable codec; downlink codec sums or
  /// ternary without a shared scaler; low-rank tensors (make_part_exchange supports them); servers in the group that
  /// own no shards; an update without servers or with a downlink codec other than fp32 and bf16
  CompressedAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options);
  /// Uses an existing plan, made for workers.num_workers; options.codecs is ignored.
  /// @param numbers  indices of the tensors in the layout of all tensors, if they are a part of these; empty: all
  CompressedAllReduce(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                      const CompressedAllReduceOptions& options, std::vector<int> numbers = {});
  // Not copyable or movable: members hold references to plan_.
  ~CompressedAllReduce() override;
  CompressedAllReduce(const CompressedAllReduce&) = delete;
  CompressedAllReduce& operator=(const CompressedAllReduce&) = delete;

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;

  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step,
                               NonfiniteTensors& found) override;
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                     std::span<const TensorTable> kept) override;
  void commit() override {}
  std::vector<const CompressedAllReduce*> exchanges() const override { return {this}; }

  const CodecPlan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  /// Hash in the header of all its messages: layout, codecs, and the options that ranks must agree on.
  std::uint64_t fingerprint() const { return context_.fingerprint; }
  /// Slices of gradient messages. scatter_reduce: one list per shard; all_gather: one list of all tensors; integer_sum:
  /// one list of the tensors whose codes cannot be summed.
  const std::vector<std::vector<Slice>>& parts() const { return rows_.parts(); }
  /// The algorithm in use, kAuto resolved.
  ExchangeAlgorithm algorithm() const { return algorithm_; }

  /// Sets a callback for each gradient message between writing and sending; it runs concurrently for several workers if
  /// there are more workers than threads. Tests damage messages with it. With a filter, messages are made even if this
  /// process has all workers.
  void set_message_filter(GradientTransport::MessageFilter filter);

 private:
  /// True if messages are made; otherwise this process has all workers and reads their payloads in place.
  bool sends_messages() const { return has_filter_ || !workers_.communicator->is_alone(); }

  /// Decides how the mean returns: as messages, or in place. Called again when a filter is set.
  void make_downlink();
  /// True if shards of the mean travel as messages; also in a single process if their size is known only once they are
  /// encoded.
  bool returns_messages() const { return mean_messages_ != nullptr; }

  void exchange_scalers(ExchangeReport& report);
  void combine_scalers(NonfiniteTensors& found);
  /// Sends every worker's payloads to every process: the whole gradient, or with integer_sum the tensors that cannot be
  /// summed.
  void gather(ExchangeReport& report);
  /// Sends shards to their owners and reads the messages for `own`, the shards of this rank.
  void scatter(const ShardRange& own, ExchangeReport& report);
  /// Adds up lanes: over this process's workers, then over all processes.
  void sum_lanes(ExchangeReport& report);
  /// Aggregates the received payloads into `mean`, in the units that the downlink needs.
  void aggregate(const TensorTable& mean);
  /// Rounds the whole mean by the downlink codec, where every process has all of it.
  void apply_downlink(const TensorTable& mean);
  /// Finds the largest sums of codes over the shards of all ranks (downlink codec ternary).
  void share_maxima(const TensorTable& mean, ExchangeReport& report);
  /// Downlink of scatter_reduce: updates the own shards if there is an update, then sends them (return_shards).
  void exchange_mean(const ShardRange& own, const TensorTable& mean, ExchangeReport& report, NonfiniteTensors& found);
  /// Sends this rank's aggregated shards to all ranks, and decodes all shards into `mean`.
  void return_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report);
  /// Inverse rotation of the mean of rotated tensors, limited to the given slices.
  void finish(const TensorTable& mean, std::span<const Slice> slices);
  /// Applies the update to this rank's shards, unless a shard of any rank is not finite and the step is dropped for it.
  /// @returns false if the step is dropped
  bool update_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report, NonfiniteTensors& found);
  /// True if non-finite values drop the step, with or without an exception.
  bool drops_nonfinite() const { return options_.on_nonfinite != OnNonfinite::kZero; }

  Layout layout_;
  WorkerGroup workers_;
  CompressedAllReduceOptions options_;
  WireNodes nodes_;
  CodecPlan plan_;
  Stream stream_;
  ExchangeAlgorithm algorithm_;
  bool sums_lanes_;           // integer_sum, except with kAuto in one process, where summing lanes would only cost time
  SummedBytes summed_bytes_;  // set for integer_sum
  float max_mean_;
  MessageContext context_;
  GradientTransport transport_;
  PayloadRows rows_;       // all tensors, as one part or as shards; integer_sum: tensors that cannot be summed
  PayloadRows lane_rows_;  // integer_sum: tensors whose codes are summed, as lanes
  CoderSetup setup_;
  std::vector<std::unique_ptr<Coder>> coders_;  // one per group of the plan
  bool has_filter_ = false;
  bool has_sent_ = false;  // at least one step was encoded, and the last one was not dropped
  std::optional<DownlinkForms> forms_;
  std::unique_ptr<MeanMessages> mean_messages_;      // the mean travels in messages,
  std::unique_ptr<DownlinkPayloads> mean_payloads_;  // or stays
  std::unique_ptr<Downlink> downlink_;
  MeanCheck mean_check_;
  Buffer<std::uint64_t> lane_sums_;
  Parcels outgoing_;
  std::vector<Parcels> outgoing_of_rank_;
  Parcels incoming_;
  std::vector<Message> messages_;
};

}  // namespace terngrad
