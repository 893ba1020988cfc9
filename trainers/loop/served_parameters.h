// ServedParameters: the state of a parameter server when workers pull parameters instead of gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/shard_update.h"
#include "compress/route/shard_owners.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

/// Options of ServedParameters.
struct ServedParametersOptions {
  /// Creates the optimizer for a shard of `num_elements`, with initial slots.
  std::function<std::unique_ptr<Optimizer>(std::int64_t num_elements)> make_optimizer;
  Schedule schedule;
  float mean_factor = 1;  // see TrainerOptions::mean_factor
  /// True if the downlink rounds the parameters (DownlinkCodec::kBfloat16). The server updates unrounded ones, and
  /// checkpoints store both.
  bool is_rounded = false;
  int num_threads = 1;
};

/// The shards of parameters and optimizer slots that this rank serves (possibly none), for a synchronous parameter
/// server (Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; Wen et al., NIPS
/// 2017, algorithm 1, with the update at the server). In each step the mean gradient of a shard is scaled by
/// mean_factor and applied with the schedule's rate. Updates are elementwise, so parameters are bit-identical to those
/// of replicas that update themselves, for any number of servers.
class ServedParameters final : public ShardUpdate {
 public:
  ServedParameters(const Layout& layout, const WorkerGroup& workers, const ServedParametersOptions& options);

  /// Copies the shards' state from a run: parameters, slots and counters of `optimizer`, all for the whole layout.
  /// @param is_new  true if no checkpoint was restored: the unrounded parameters are then `parameters`
  void begin(std::span<const float> parameters, Optimizer& optimizer, bool is_new);

  void update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values, std::uint64_t step) override;

  /// Collective: gathers all shards' slots on rank 0, in its `optimizer` and own_slots().
  /// @throws CommunicationError if a rank sends shards that it does not serve
  void gather(Optimizer& optimizer);

  /// Slots that checkpoints keep besides the optimizer's: if is_rounded, the unrounded parameters "served".
  std::vector<Optimizer::Slot> own_slots();

 private:
  struct Shard {
    std::vector<Slice> slices;
    Buffer<float> parameters;  // elements of the slices, concatenated
    Buffer<float> gradient;
    std::unique_ptr<Optimizer> optimizer;  // for the shard's elements
  };
  /// Flat buffers of the whole layout, in the order in which their shards are sent.
  std::vector<std::span<float>> whole_buffers(Optimizer& optimizer);
  std::vector<std::span<float>> buffers_of(Shard& shard) const;

  Layout layout_;
  WorkerGroup workers_;
  ServedParametersOptions options_;
  ShardRange own_;
  std::vector<std::vector<Slice>> all_shards_;
  std::vector<Shard> shards_;  // this rank's shards
  Buffer<float> unrounded_;    // [flat elements] if is_rounded, else empty
  Stream stream_;
};

}  // namespace terngrad
