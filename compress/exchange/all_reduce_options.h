// CompressedAllReduceOptions: how gradients are encoded and exchanged.
#pragma once

#include <cstdint>
#include <optional>

#include "compress/plan/codec_plan.h"
#include "compress/plan/exchange_choices.h"
#include "compress/route/shard_owners.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

class ShardUpdate;

/// Options of CompressedAllReduce.
struct CompressedAllReduceOptions {
  CodecPlanOptions codecs;  // codec of each tensor; its num_workers is replaced by the worker group's
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAuto;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  /// If set, the communication library adds the gradients as elements of this type (compress/exchange/vendor_round.h),
  /// whatever codecs and algorithm are; without a memory.
  std::optional<ElementType> vendor_type = std::nullopt;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  ShardOwners owners = ShardOwners::kWorkers;  // kServers requires scatter_reduce, which kAuto then is
  /// Update that the owners of shards apply to the mean before it is sent back (parameter server), on all ranks or on
  /// none; not owned by the exchange. The `mean` of an exchange is then the output of this update.
  ShardUpdate* update = nullptr;
  /// Factor that the caller or the update applies to the mean afterwards. A mean counts as overflowed if its product
  /// with this factor would overflow.
  float mean_factor = 1;
  std::uint64_t seed = 1;
  std::uint64_t run_id = 0;  // equal on all ranks; messages with another run_id are refused
  int num_threads = 1;       // threads of this process; results do not depend on it
};

}  // namespace terngrad
