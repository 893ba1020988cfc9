// MessageTransport: a transport in host memory, whose ranks send each other messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/route/wire_bytes.h"
#include "compress/transport/downlink_payloads.h"
#include "compress/transport/exchange_peers.h"
#include "compress/transport/mean_messages.h"
#include "compress/transport/transport.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"

namespace terngrad {

/// A process that has all workers makes no messages; the bytes that it counts are those of the messages there would be.
class MessageTransport final : public Transport {
 public:
  /// @param layout, plan  kept by reference
  MessageTransport(const Layout& layout, const CodecPlan& plan, const ExchangePeers& peers,
                   const TransportOptions& options);

  PayloadSlots& slots(std::size_t group) override;
  const DownlinkForms& forms() const override { return forms_; }
  std::span<MeanPart> mean_parts() override;
  bool others_read_mean() const override { return forms_.travels(); }
  bool reaches_others() const override { return sends_messages(); }

  void begin(std::uint64_t step) override;
  void share_scalers(Coders coders, Stream& stream) override;
  void move_payloads(Coders coders, Stream& stream) override;
  void share_maxima(Coders coders, Downlink& downlink, Stream& stream) override;
  void begin_mean(const Downlink& downlink) override;
  void return_mean(const Downlink& downlink, Stream& stream) override;
  OwnShards own_shards() const override;
  void share_overflow(std::span<std::uint32_t> flags) override;
  ExchangeBytes bytes() const override { return bytes_; }

 private:
  /// True if messages are made; otherwise this process has all workers and reads their payloads in place.
  bool sends_messages() const { return has_filter_ || !workers_.communicator->is_alone(); }
  /// In a process with all workers, the mean travels only if its bytes are known no sooner than it is encoded.
  bool mean_travels() const;
  /// Sends every worker's payloads to every process.
  void gather(Coders coders, Stream& stream);
  /// Sends shards to their owners, and reads the messages for own shards.
  void scatter(Coders coders, Stream& stream);
  /// Adds up lanes: over this process's workers, then over all processes.
  void sum_lanes(Stream& stream);

  const Layout& layout_;
  const CodecPlan& plan_;
  WorkerGroup workers_;
  TransportOptions options_;
  bool has_filter_;
  WireNodes nodes_;
  ShardRange own_;   // shards of this rank; without is_scattered the only part
  bool sums_lanes_;  // true if lanes are added, not only counted
  GradientTransport frames_;
  PayloadRows rows_;       // parts of the route, or all tensors where lanes are only counted
  PayloadRows lane_rows_;  // tensors whose codes are added
  DownlinkForms forms_;
  std::unique_ptr<MeanMessages> mean_messages_;      // the mean travels in messages,
  std::unique_ptr<DownlinkPayloads> mean_payloads_;  // or stays
  std::vector<std::int64_t> staying_bytes_;          // per shard: bytes that a mean that stays would take
  ExchangeBytes bytes_;
  Buffer<std::uint64_t> lane_sums_;
  Parcels outgoing_, incoming_;
  std::vector<Parcels> outgoing_of_rank_;
  Message message_;
};

}  // namespace terngrad
