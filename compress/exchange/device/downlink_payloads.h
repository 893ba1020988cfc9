// DownlinkPayloads: where the parts of a mean are in device memory on their way from the rank that aggregated them to
// all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/shard_owners.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// A slice of the mean, and the place of its payload.
struct MeanPart {
  Slice slice;  // not empty
  int shard = 0;
  bool is_own = true;               // aggregated by this rank
  std::int64_t bytes = 0;           // of the payload
  std::uint8_t* payload = nullptr;  // begins at a multiple of 16 bytes
};

/// The payloads of all shards of a mean (compress/exchange/codec_shards.h), in one buffer with fixed places: each rank
/// fills those of its shards (shards_of_ranks), and gathers the others. Where a mean does not travel, it is one shard
/// that every rank has.
class DownlinkPayloads {
 public:
  struct Options {
    std::span<const WorkerRange> ranks;  // the workers of each rank
    int rank = 0;                        // which of them this is
    ShardOwners owners = ShardOwners::kWorkers;
    bool travels = false;
    /// Bytes of a slice's payload; a slice of which they are 0 is no part.
    std::function<std::int64_t(const Slice&)> bytes_of;
  };
  /// @param shards  those of all ranks; one of the whole layout if they do not travel
  DownlinkPayloads(const std::vector<std::vector<Slice>>& shards, const Options& options, const Device& device);

  /// In order of shards.
  std::span<const MeanPart> parts() const { return parts_; }
  /// Submits the gathering of all parts, if they travel. Allocates nothing; the host does not wait.
  void gather(DeviceCommunicator& communicator, Stream& stream);
  /// Adds the bytes of every step, as ExchangeReport counts them.
  void add_bytes(ExchangeBytes& report) const;

 private:
  bool is_own(int shard) const { return !travels_ || own_shards_.has(static_cast<std::size_t>(shard)); }
  void add_parts(const std::vector<std::vector<Slice>>& shards,
                 const std::function<std::int64_t(const Slice&)>& bytes_of);
  /// The bytes of each rank's shards in the buffer.
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
