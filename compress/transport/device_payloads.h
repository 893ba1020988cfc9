// DevicePayloads: offsets of workers' payloads in device memory, and their transfer to the ranks that aggregate them.
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
#include "compress/plan/codec_plan.h"
#include "compress/route/exchange_report.h"
#include "compress/route/shard_owners.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// Payloads of all workers of an exchange, for the groups of a plan that use one algorithm.
class DevicePayloads {
 public:
  virtual ~DevicePayloads() = default;
  DevicePayloads(const DevicePayloads&) = delete;
  DevicePayloads& operator=(const DevicePayloads&) = delete;

  /// @param group  index into the plan's groups; the slots have no slices if the group is not served
  PayloadSlots& slots(std::size_t group) { return slots_.at(group); }
  const PayloadSlots& slots(std::size_t group) const { return slots_.at(group); }
  /// Submits the transfer of payloads from outgoing to incoming slots. Allocates nothing; the host does not wait.
  virtual void submit(DeviceCommunicator& communicator, Stream& stream) = 0;
  /// Adds the bytes per step, as ExchangeReport counts them.
  virtual void add_bytes(ExchangeBytes& report) const = 0;

 protected:
  /// Consecutive payloads of some slices.
  struct Run {
    std::vector<Slice> slices;          // none is empty
    std::vector<std::size_t> groups;    // group of each slice
    std::vector<std::int64_t> offsets;  // byte offset of each payload
    std::int64_t bytes = 0;
  };
  DevicePayloads(const CodecPlan& plan, std::vector<bool> serves, PayloadForm form);
  Run run_of(std::span<const Slice> slices) const;
  /// @param begin  start of each local worker's run
  void add_outgoing(const Run& run, std::span<std::uint8_t* const> begin);
  /// @param begin  start of each payload's run
  void add_incoming(const Run& run, std::span<std::uint8_t* const> begin);

 private:
  const CodecPlan& plan_;
  std::vector<bool> serves_;  // per group
  std::vector<PayloadSlots> slots_;
};

/// Arguments of the functions below. The plan must outlive the payloads.
struct DevicePayloadsSetup {
  const Layout& layout;
  const CodecPlan& plan;
  std::vector<WorkerRange> ranks;  // worker range of each rank
  int rank = 0;
  ShardOwners owners = ShardOwners::kWorkers;  // for make_scattered_payloads
  Device device;
  std::function<bool(const Codec&)> serves = [](const Codec&) { return true; };  // codecs of the tensors to include

  const WorkerRange& own() const { return ranks[static_cast<std::size_t>(rank)]; }
};

/// all_gather: whole tensors. Every rank gets every worker's payloads.
std::unique_ptr<DevicePayloads> make_gathered_payloads(const DevicePayloadsSetup& setup);
/// Uplink of scatter_reduce: each shard of the layout (compress/route/codec_shards.h) by itself. Each rank gets
/// every worker's payloads of its own shards (shards_of_ranks).
std::unique_ptr<DevicePayloads> make_scattered_payloads(const DevicePayloadsSetup& setup);
/// integer_sum: whole tensors as lanes. Every rank gets their sum over all workers, which is exact in any order.
/// @param setup  must serve summable codecs only
std::unique_ptr<DevicePayloads> make_summed_payloads(const DevicePayloadsSetup& setup);

}  // namespace terngrad
