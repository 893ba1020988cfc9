// CompressedAllReduce: the mean of all workers' gradients, exchanged in encoded form.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/exchange_bytes.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/wire_bytes.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/wire_format.h"
#include "compress/wire/worker_encoder.h"

namespace terngrad {

class CompressedAllReduce final : public GradientExchange {
 public:
  /// @throws InvalidArgument for options that cannot be honoured together: integer_sum without a summable codec,
  /// downlink codec sums or ternary without a shared scaler, servers of the group that own nothing, an update without
  /// servers or with a downlink codec other than fp32 and bf16
  CompressedAllReduce(const Layout& layout, const WorkerGroup& workers, const CompressedAllReduceOptions& options);
  /// With a plan made before, for a run of that many workers; options.codecs is not looked at.
  CompressedAllReduce(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                      const CompressedAllReduceOptions& options);
  ~CompressedAllReduce() override;

  ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) override;
  float decode_local(int local_worker, int segment, std::span<float> out) override;

  /// exchange, for one of the parts of a step: what is not finite is added to `found` for the caller to apply the
  /// policy to, when all parts are done, and is not in the report.
  ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step,
                               NonfiniteTensors& found);

  const CodecPlan& plan() const { return plan_; }
  const Layout& layout() const { return layout_; }
  /// What all its messages carry: of layout, codecs, and the options that ranks must agree on.
  std::uint64_t fingerprint() const { return context_.fingerprint; }
  /// The algorithm in use, kAuto resolved.
  ExchangeAlgorithm algorithm() const { return algorithm_; }

  /// Called with each gradient message between its encoding and its transport, for several workers at once where there
  /// are more of them than threads. Tests damage messages with it.
  using MessageFilter = std::function<void(int worker, std::span<std::uint8_t> message)>;
  void set_message_filter(MessageFilter filter) { filter_ = std::move(filter); }

 private:
  /// Lists of slices, and for each local worker and list the message in the making.
  struct Parts {
    std::vector<std::vector<Slice>> slices;
    PayloadForm form = PayloadForm::kNatural;
  };

  void exchange_scalers(ExchangeReport& report, NonfiniteTensors& found);
  void combine_scalers(NonfiniteTensors& found);
  /// Encodes all parts of all local workers into their writers from number `slot` on.
  void encode(std::span<const TensorTable> gradients, const Parts& parts, std::size_t slot = 0);
  void all_gather(std::span<const TensorTable> gradients, const TensorTable& mean, ExchangeReport& report);
  /// The whole of it: `scatter`, what owners do, `return_shards`.
  void scatter_reduce(std::span<const TensorTable> gradients, const TensorTable& mean, ExchangeReport& report,
                      NonfiniteTensors& found);
  /// Sends shards to their owners, of which `own` are this rank's, and reads what comes.
  void scatter(const ShardRange& own, ExchangeReport& report);
  /// Sends this rank's aggregated shards to all, and reads all into `mean`.
  void return_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report);
  /// Lets the update have this rank's shards, unless any rank's are not finite and the step is to be dropped for it.
  /// @returns whether to continue
  bool update_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report, NonfiniteTensors& found);
  void integer_sum(std::span<const TensorTable> gradients, const TensorTable& mean, ExchangeReport& report);
  /// integer_sum where this process has all workers, so that nothing travels: computed as all_gather does, which has
  /// the same bits (contract B2) and needs no lanes; its bytes are those of integer_sum.
  void sum_in_process(std::span<const TensorTable> gradients, const TensorTable& mean, ExchangeReport& report);
  /// Gathers every worker's message of a single part (writer 0) and aggregates it.
  void gather_part(const Parts& parts, const TensorTable& mean, ExchangeReport& report);
  /// Appends what this process's workers send of one part, which is in the writers' slot of that number.
  void append_part(std::size_t slot, std::span<const Slice> slices, Parcels& out);
  /// Aggregates slices, each from what append_slice(its index, by_slice_) appends.
  template <class AppendSlice>
  void aggregate(std::span<const Slice> slices, const AppendSlice& append_slice, const TensorTable& mean);
  /// Aggregates a part of those that transport_ has read.
  void aggregate_part(std::size_t part, std::span<const Slice> slices, const TensorTable& mean);
  void apply_downlink(const TensorTable& mean);
  /// Looks for tensors whose mean overflowed, after the downlink: the same in every process, for all have its bits.
  void check_mean(const TensorTable& mean, NonfiniteTensors& found);
  /// Whether what is not finite drops the step, by an exception or in silence.
  bool drops_nonfinite() const { return options_.on_nonfinite != OnNonfinite::kZero; }
  /// Calls body(local worker, stream) for all, side by side where there are more workers than threads.
  template <class Body>
  void for_each_worker(const Body& body);

  Layout layout_;
  WorkerGroup workers_;
  CompressedAllReduceOptions options_;
  WireNodes nodes_;
  CodecPlan plan_;
  Stream stream_;
  ExchangeAlgorithm algorithm_;
  bool sums_in_process_;
  SummedBytes summed_bytes_;  // of sum_in_process
  float max_mean_;
  MessageContext context_;
  Parts whole_;   // one part: all tensors
  Parts shards_;  // one part per worker
  Parts lanes_;   // one part: the summable tensors, as lanes
  Parts rest_;    // one part: the others
  Downlink whole_downlink_;
  Downlink shard_downlink_;
  std::vector<std::unique_ptr<WorkerEncoder>> encoders_;          // one per local worker
  std::vector<std::vector<MessageWriter>> writers_;               // [local worker][part]
  std::vector<std::vector<std::span<const std::uint8_t>>> sent_;  // of the last step: [local worker][part]
  std::vector<std::span<const std::uint8_t>> sent_of_part_;       // [local worker]
  GradientTransport transport_;
  MessageWriter mean_writer_;
  std::vector<float> shared_;
  std::vector<std::uint32_t> max_;
  std::vector<std::uint64_t> lane_words_;
  Parcels outgoing_;
  std::vector<Parcels> outgoing_of_rank_;
  Parcels incoming_;
  std::vector<Message> messages_;
  std::vector<EncodedSlice> by_slice_;
  std::vector<GradientTransport::Source> sources_;
  std::vector<AggregateJob> jobs_;
  MessageFilter filter_;
};

}  // namespace terngrad
