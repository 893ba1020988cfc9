// Transport: moves scalers, payloads and the mean between the ranks of an exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codec/payload_slots.h"
#include "compress/route/downlink_forms.h"
#include "compress/route/exchange_report.h"
#include "compress/route/route.h"
#include "compress/route/shard_owners.h"
#include "compress/transport/downlink.h"
#include "compress/transport/mean_part.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Settings of a transport.
struct TransportOptions {
  Route route;
  /// True if the route was chosen for the bytes between the processes that this one emulates. If it has all workers, a
  /// MessageTransport then counts the bytes of lanes, but does not spend time on adding them.
  bool is_chosen = false;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  ShardOwners owners = ShardOwners::kWorkers;
  MessageContext context = {};  // of all messages; the step is set by begin
};

/// The moves of a step along a Route, in the order of the calls below. In host memory a call returns when the data are
/// there; in device memory it submits the move to the stream. All ranks make the same calls.
class Transport {
 public:
  using Coders = std::span<const std::unique_ptr<Coder>>;  // one per group of the plan

  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Where a group's coder finds its slices and the addresses of their payloads. Coders must not outlive the transport.
  virtual PayloadSlots& slots(std::size_t group) = 0;
  /// The forms in which the mean returns, and its parts, as Downlink takes them.
  virtual const DownlinkForms& forms() const = 0;
  virtual std::span<MeanPart> mean_parts() = 0;
  /// True if other ranks read this rank's parts of the mean.
  virtual bool others_read_mean() const = 0;
  /// True if anything leaves this rank.
  virtual bool reaches_others() const = 0;

  /// Begins a step, whose bytes are counted from here on.
  virtual void begin(std::uint64_t step) = 0;
  /// Brings the local scalers of all workers to the coders of every rank.
  virtual void share_scalers(Coders coders, Stream& stream) = 0;
  /// Brings payloads from outgoing to incoming slots.
  virtual void move_payloads(Coders coders, Stream& stream) = 0;
  /// Reduces the maxima of a downlink over all ranks.
  virtual void share_maxima(Coders coders, Downlink& downlink, Stream& stream) = 0;
  /// Points this rank's parts of the mean to where their payloads are written, after Downlink::scale.
  virtual void begin_mean(const Downlink& downlink) = 0;
  /// Sends this rank's parts of the mean to all ranks, and points all parts to the payloads received.
  virtual void return_mean(const Downlink& downlink, Stream& stream) = 0;

  /// Shards that this rank updates before they return, in host memory.
  struct OwnShards {
    ShardRange range;
    std::span<const std::vector<Slice>> slices;
  };
  virtual OwnShards own_shards() const = 0;
  /// Reduces the flags of tensors that overflowed in an own shard by maximum over all ranks, in host memory.
  virtual void share_overflow(std::span<std::uint32_t> flags) = 0;

  /// Bytes of the step. In device memory they are the same in every step.
  virtual ExchangeBytes bytes() const = 0;
};

struct ExchangePeers;

/// Makes a MessageTransport or a DeviceTransport, according to the peers' communicator.
/// @param layout, plan  kept by reference
std::unique_ptr<Transport> make_transport(const Layout& layout, const CodecPlan& plan, const ExchangePeers& peers,
                                          const TransportOptions& options, const Device& device);

}  // namespace terngrad
