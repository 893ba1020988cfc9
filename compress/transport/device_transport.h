// DeviceTransport: a transport in device memory, with payloads at fixed places and without headers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "compress/transport/device_payloads.h"
#include "compress/transport/downlink_payloads.h"
#include "compress/transport/transport.h"

namespace terngrad {

/// Payloads take their largest size, so their places and bytes are the same in every step, and the host takes no part:
/// calls allocate nothing and do not wait. With scatter_reduce the rank of worker j aggregates shard j; with servers,
/// the first rank aggregates everything, beside its workers.
class DeviceTransport final : public Transport {
 public:
  /// @param layout, plan  kept by reference
  /// @param workers       workers of this rank: the worker_range of the communicator's rank
  /// @throws InvalidArgument if the workers are others
  DeviceTransport(const Layout& layout, const CodecPlan& plan, const WorkerRange& workers,
                  std::shared_ptr<DeviceCommunicator> communicator, const TransportOptions& options,
                  const Device& device);

  PayloadSlots& slots(std::size_t group) override;
  const DownlinkForms& forms() const override { return forms_; }
  std::span<MeanPart> mean_parts() override { return mean_payloads_.parts(); }
  bool others_read_mean() const override { return communicator_->size() > 1; }
  bool reaches_others() const override { return communicator_->size() > 1; }

  void begin(std::uint64_t /*step*/) override {}
  void share_scalers(Coders coders, Stream& stream) override;
  void move_payloads(Coders coders, Stream& stream) override;
  void share_maxima(Coders coders, Downlink& downlink, Stream& stream) override;
  void begin_mean(const Downlink& /*downlink*/) override {}
  void return_mean(const Downlink& downlink, Stream& stream) override;
  OwnShards own_shards() const override { return {}; }
  /// @throws NotSupported
  void share_overflow(std::span<std::uint32_t> flags) override;
  ExchangeBytes bytes() const override;

 private:
  const CodecPlan& plan_;
  WorkerRange workers_;
  ShardOwners owners_;
  std::shared_ptr<DeviceCommunicator> communicator_;
  std::vector<WorkerRange> ranks_;                         // worker range of each rank
  std::vector<std::unique_ptr<DevicePayloads>> payloads_;  // together they serve all groups of the plan
  DownlinkForms forms_;
  DownlinkPayloads mean_payloads_;
  std::vector<std::int64_t> num_scalers_;     // per group
  std::vector<DeviceGather> scaler_gathers_;  // one per coder, made in the first step
};

}  // namespace terngrad
