// DevicePayloads: where workers' payloads are in device memory, and how they get to who aggregates them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/payload_slots.h"
#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/shard_owners.h"
#include "compress/plan/codec_plan.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// The payloads of all workers of an exchange, for the groups of a plan that one algorithm serves.
class DevicePayloads {
 public:
  virtual ~DevicePayloads() = default;
  DevicePayloads(const DevicePayloads&) = delete;
  DevicePayloads& operator=(const DevicePayloads&) = delete;

  /// @param group  index into the plan's groups; no slices if this does not serve it
  PayloadSlots& slots(std::size_t group) { return slots_.at(group); }
  const PayloadSlots& slots(std::size_t group) const { return slots_.at(group); }
  /// Submits what brings payloads from outgoing to incoming places. Allocates nothing; the host does not wait.
  virtual void submit(DeviceCommunicator& communicator, Stream& stream) = 0;
  /// Adds the bytes of every step, as ExchangeReport counts them.
  virtual void add_bytes(ExchangeBytes& report) const = 0;

 protected:
  /// Payloads of some slices, one after the other.
  struct Run {
    std::vector<Slice> slices;          // none is empty
    std::vector<std::size_t> groups;    // of each
    std::vector<std::int64_t> offsets;  // of each, in bytes
    std::int64_t bytes = 0;
  };
  DevicePayloads(const CodecPlan& plan, std::vector<bool> serves, PayloadForm form);
  Run run_of(std::span<const Slice> slices) const;
  /// @param begin  where the run of each local worker begins
  void add_outgoing(const Run& run, std::span<std::uint8_t* const> begin);
  /// @param begin  where each payload's run begins
  void add_incoming(const Run& run, std::span<std::uint8_t* const> begin);

 private:
  const CodecPlan& plan_;
  std::vector<bool> serves_;  // by group
  std::vector<PayloadSlots> slots_;
};

/// What payloads are made for. The plan must outlive them.
struct DevicePayloadsSetup {
  const Layout& layout;
  const CodecPlan& plan;
  std::vector<WorkerRange> ranks;  // the workers of each rank
  int rank = 0;
  ShardOwners owners = ShardOwners::kWorkers;  // of scattered ones
  Device device;
  std::function<bool(const Codec&)> serves = [](const Codec&) { return true; };  // tensors that travel so

  const WorkerRange& own() const { return ranks[static_cast<std::size_t>(rank)]; }
};

/// all_gather: whole tensors; every rank gets every worker's payloads.
std::unique_ptr<DevicePayloads> make_gathered_payloads(const DevicePayloadsSetup& setup);
/// scatter_reduce, on the way there: every shard of the layout (compress/exchange/codec_shards.h) by itself; each rank
/// gets every worker's payloads of its own shards (shards_of_ranks).
std::unique_ptr<DevicePayloads> make_scattered_payloads(const DevicePayloadsSetup& setup);
/// integer_sum: whole tensors as lanes; every rank gets their sum over all workers, exact whatever the order.
/// @param setup  serves tensors with summable codecs only
std::unique_ptr<DevicePayloads> make_summed_payloads(const DevicePayloadsSetup& setup);

}  // namespace terngrad
