// CompressedAllReduceOptions: how gradients are encoded and exchanged.
#pragma once

#include <cstdint>

#include "compress/exchange/exchange_algorithm.h"
#include "compress/exchange/on_nonfinite.h"
#include "compress/exchange/shard_owners.h"
#include "compress/plan/codec_plan.h"

namespace terngrad {

class ShardUpdate;

struct CompressedAllReduceOptions {
  CodecPlanOptions codecs;  // its num_workers is taken from the worker group
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAuto;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  ShardOwners owners = ShardOwners::kWorkers;  // servers: kAuto is scatter_reduce, the only one that they can do
  /// What owners make of their shards, on all ranks or none; not owned by the exchange. What is called mean is then
  /// what it makes of the mean.
  ShardUpdate* update = nullptr;
  /// What the mean is multiplied by afterwards, by the caller or the update: one that would then overflow has
  /// overflowed.
  float mean_factor = 1;
  std::uint64_t seed = 1;
  std::uint64_t run_id = 0;  // the same on all ranks; messages of another run are refused
  int num_threads = 1;       // of this process; results do not depend on it
};

}  // namespace terngrad
