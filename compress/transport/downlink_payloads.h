// DownlinkPayloads: payloads of a mean at fixed places, which ranks send to each other without headers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/route/downlink_forms.h"
#include "compress/route/exchange_report.h"
#include "compress/route/shard_owners.h"
#include "compress/transport/mean_part.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Payloads of all shards of a mean (compress/route/codec_shards.h) at fixed offsets in one buffer. Each rank writes
/// those of its own shards (shards_of_ranks) and gathers the others. A mean that does not travel is a single shard that
/// every rank has.
class DownlinkPayloads {
 public:
  struct Options {
    std::vector<WorkerRange> ranks;  // worker range of each rank
    int rank = 0;                    // index of this rank
    ShardOwners owners = ShardOwners::kWorkers;
    bool travels = false;
    /// Payload bytes of a slice; slices with 0 bytes are omitted.
    std::function<std::int64_t(const Slice&)> bytes_of = {};
  };
  /// @param shards  shards of all ranks; a single one with the whole layout if they do not travel
  DownlinkPayloads(const std::vector<std::vector<Slice>>& shards, const Options& options, const Device& device);
  /// Payloads in the forms of a downlink; a mean that stays has them only for codes, which are drawn into it.
  /// @param options  without travels and bytes_of, which follow from the forms
  DownlinkPayloads(const Layout& layout, const CodecPlan& plan, const DownlinkForms& forms, const Options& options,
                   const Device& device);

  /// In order of shards.
  std::span<MeanPart> parts() { return parts_; }
  /// Submits the all-gather of all parts, if they travel. Allocates nothing; the host does not wait.
  void gather(DeviceCommunicator& communicator, Stream& stream);
  /// Adds the bytes per step, as ExchangeReport counts them.
  void add_bytes(ExchangeBytes& report) const;

 private:
  bool is_own(int shard) const { return !travels_ || own_shards_.has(static_cast<std::size_t>(shard)); }
  void add_parts(const std::vector<std::vector<Slice>>& shards,
                 const std::function<std::int64_t(const Slice&)>& bytes_of);
  /// Byte range of each rank's shards in the buffer.
  std::vector<ByteRange> ranges_of(std::span<const ShardRange> ranks) const;

  WorkerRange own_;
  ShardOwners owners_;
  ShardRange own_shards_;
  bool travels_;
  std::vector<MeanPart> parts_;
  std::vector<std::int64_t> shard_bytes_;
  Buffer<std::uint64_t> payloads_;
  DeviceGather gather_;
};

}  // namespace terngrad
