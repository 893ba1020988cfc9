// Round: one round of an exchange, from gradients to their mean.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/part_exchange.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/route.h"

namespace terngrad {

class Downlink;
class MeanCheck;
class Transport;

/// Checks the options of an exchange of all tensors, before any part of it is made.
/// @throws InvalidArgument as require_combination, and for servers that own no shards
void require_supported(const CodecPlan& plan, const PartContext& context, MemoryKind memory);

/// Measures, encodes, moves, aggregates and decodes the gradients of all workers along one Route, on the CPU or a GPU.
/// The mean has the same bits on every route, for any number of ranks and on any device (contracts B1, B2).
class Round final : public PartExchange {
 public:
  /// @throws InvalidArgument for unsupported combinations: integer_sum without a summable codec; downlink codec sums or
  /// ternary without a shared scaler; low-rank tensors, which take two rounds; servers in the group that own no shards;
  /// an update without servers, or with a downlink codec other than fp32 and bf16. NotSupported on a GPU for a codec
  /// without kernels whose payloads have no fixed size
  Round(const Layout& layout, CodecPlan plan, const PartContext& context, std::vector<int> numbers);
  // Not copyable or movable: members hold references to plan_.
  ~Round() override;
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  void run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step, Stream& stream,
           PartClock& clock) override;
  ExchangeBytes bytes() const override;
  float decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) override;
  void update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     Stream& stream) override;
  void commit(Stream& /*stream*/) override {}
  std::vector<const Round*> rounds() const override { return {this}; }

  const CodecPlan& plan() const { return plan_; }
  const Layout& layout() const { return setup_.layout; }
  const Route& route() const { return route_; }
  /// Hash in the header of all its messages: layout, codecs, and the options that ranks must agree on.
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::set<std::string> codecs_through_host() const;

 private:
  /// On the CPU, true if this round's gradients were not finite and the step is dropped: all ranks find the same, so
  /// none waits for another.
  bool is_dropped(std::uint64_t count_before) const;
  /// Sends the mean back; applies the update before, if there is one.
  void return_mean(const TensorTable& mean, const DeviceStep& step, Stream& stream, PartClock& clock);
  /// Applies the update to this rank's shards, unless a shard of any rank is not finite and the step is dropped for it.
  /// @returns false if the step is dropped
  bool update_shards(const TensorTable& mean, const DeviceStep& step, Stream& stream);

  CoderSetup setup_;
  CompressedAllReduceOptions options_;
  CodecPlan plan_;
  Route route_;
  std::uint64_t fingerprint_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Coder>> coders_;  // one per group of the plan
  std::unique_ptr<Downlink> downlink_;
  float max_mean_;
  std::unique_ptr<MeanCheck> mean_check_;
  std::vector<Slice> whole_;                 // slices of all tensors
  double ExchangeReport::*const wire_time_;  // what moves count as; one rank has no wire
  NonfiniteFlags& flags_;
  bool has_run_ = false;  // the last step ran to its end
};

}  // namespace terngrad
