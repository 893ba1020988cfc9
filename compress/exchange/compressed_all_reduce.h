// CompressedAllReduce: the mean of all workers' gradients, exchanged in encoded form.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/exchange_bytes.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_exchange.h"
#include "compress/exchange/wire_bytes.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"

namespace terngrad {

class CompressedAllReduce final : public GradientExchange, public PartExchange {
 public:
  /// @throws InvalidArgument for options that cannot be honoured together: integer_sum without a summable codec,
  /// downlink codec sums or ternary without a shared scaler, tensors of low rank (make_part_exchange has them), servers
  /// of the group that own nothing, an update without servers or with a downlink codec other than fp32 and bf16
  CompressedAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options);
  /// With a plan made before, for a run of that many workers; options.codecs is not looked at.
  CompressedAllReduce(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                      const CompressedAllReduceOptions& options);
  // What it is made of refers to its plan.
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
  /// What all its messages carry: of layout, codecs, and the options that ranks must agree on.
  std::uint64_t fingerprint() const { return context_.fingerprint; }
  /// What messages of gradients hold: the shards of scatter_reduce; everything; of integer_sum what does not add up.
  const std::vector<std::vector<Slice>>& parts() const { return rows_.parts(); }
  /// The algorithm in use, kAuto resolved.
  ExchangeAlgorithm algorithm() const { return algorithm_; }

  /// Called with each gradient message between its writing and its transport, for several workers at once where there
  /// are more of them than threads. Tests damage messages with it. With a filter messages are made also where this
  /// process has all workers.
  void set_message_filter(GradientTransport::MessageFilter filter);

 private:
  /// Whether messages are made: else this process has all workers, and reads what they encoded where it is.
  bool sends_messages() const { return has_filter_ || !workers_.communicator->is_alone(); }

  /// Whether shards of the mean travel as messages: also those whose size is known from messages only.
  bool returns_messages() const {
    return algorithm_ == ExchangeAlgorithm::kScatterReduce && (sends_messages() || !downlink_.forms().has_fixed_size());
  }

  void exchange_scalers(ExchangeReport& report);
  void combine_scalers(NonfiniteTensors& found);
  /// Brings every worker's payloads of the whole gradient, or of what does not add up, to every process.
  void gather(ExchangeReport& report);
  /// Sends shards to their owners, of which `own` are this rank's, and reads what comes.
  void scatter(const ShardRange& own, ExchangeReport& report);
  /// Adds up lanes: those of this process's workers first, then those of all processes.
  void sum_lanes(ExchangeReport& report);
  /// Aggregates what has come into `mean`, in the units that the downlink wants.
  void aggregate(const TensorTable& mean);
  /// What every process does to the whole mean that it has aggregated.
  void apply_downlink(const TensorTable& mean);
  /// The downlink of scatter_reduce: what owners do with their shards, and return_shards.
  void exchange_mean(const ShardRange& own, const TensorTable& mean, ExchangeReport& report, NonfiniteTensors& found);
  /// Sends this rank's aggregated shards to all, and reads all into `mean`.
  void return_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report);
  /// Turns back the mean of tensors that are rotated: all of it, or some slices.
  void finish(const TensorTable& mean, std::span<const Slice> slices);
  /// Lets the update have this rank's shards, unless any rank's are not finite and the step is to be dropped for it.
  /// @returns whether to continue
  bool update_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report, NonfiniteTensors& found);
  /// Looks for tensors whose mean overflowed, after the downlink: the same in every process, for all have its bits.
  void check_mean(const TensorTable& mean, NonfiniteTensors& found);
  /// Whether what is not finite drops the step, by an exception or in silence.
  bool drops_nonfinite() const { return options_.on_nonfinite != OnNonfinite::kZero; }

  Layout layout_;
  WorkerGroup workers_;
  CompressedAllReduceOptions options_;
  WireNodes nodes_;
  CodecPlan plan_;
  Stream stream_;
  ExchangeAlgorithm algorithm_;
  bool sums_lanes_;           // integer_sum, unless nothing travels and lanes would only cost time
  SummedBytes summed_bytes_;  // of integer_sum
  float max_mean_;
  MessageContext context_;
  GradientTransport transport_;
  PayloadRows rows_;       // of all tensors, in one part or in shards; of integer_sum those that do not add up
  PayloadRows lane_rows_;  // of integer_sum: the tensors whose codes add up, as lanes
  std::vector<std::unique_ptr<Coder>> coders_;  // one per group of the plan
  bool has_filter_ = false;
  bool has_sent_ = false;  // a step was encoded, and the last one was not dropped
  Downlink downlink_;      // of the parts of rows_ (scatter_reduce), or of everything
  MessageWriter mean_writer_;
  std::vector<float> shared_;  // [plan_.num_scalers()]
  std::vector<std::uint32_t> max_;
  Buffer<std::uint64_t> lane_sums_;
  Parcels outgoing_;
  std::vector<Parcels> outgoing_of_rank_;
  Parcels incoming_;
  std::vector<Message> messages_;
};

}  // namespace terngrad
