// ServedParameters: what a parameter server holds when workers pull parameters instead of gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/shard_owners.h"
#include "compress/exchange/shard_update.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

struct ServedParametersOptions {
  /// The rule, for that many elements, with slots as at a run's start.
  std::function<std::unique_ptr<Optimizer>(std::int64_t num_elements)> make_optimizer;
  Schedule schedule;
  float mean_factor = 1;  // as TrainerOptions::mean_factor
  /// The parameters are rounded on their way to the workers (DownlinkCodec::kBfloat16). The server continues from those
  /// that are not, and checkpoints keep both.
  bool is_rounded = false;
  int num_threads = 1;
};

/// The shards of parameters and optimizer slots that this rank serves, if it serves any: a synchronous parameter server
/// (Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; Wen et al., NIPS 2017,
/// algorithm 1, with the update at the server). In each step the mean gradient
/// of a shard becomes new parameters of it: scaled by the factor, then applied by the rule with the schedule's rate. An
/// update of one element depends on that element alone, so the parameters are the bits of replicas that update
/// themselves, for any number of servers.
class ServedParameters final : public ShardUpdate {
 public:
  ServedParameters(const Layout& layout, const WorkerGroup& workers, const ServedParametersOptions& options);

  /// Takes over the state of a run: its parameters, and the slots and counters of `optimizer`, whose elements are those
  /// of the whole layout.
  /// @param is_new  nothing was restored: unrounded parameters are `parameters`
  void begin(std::span<const float> parameters, Optimizer& optimizer, bool is_new);

  void update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values, std::uint64_t step) override;

  /// Brings all shards' slots to rank 0, into those of its `optimizer` and own_slots(); a collective call.
  /// @throws CommunicationError if a rank sends other shards than it serves
  void gather(Optimizer& optimizer);

  /// What a checkpoint keeps besides the optimizer's slots: the unrounded parameters, "served", of rounded ones.
  std::vector<Optimizer::Slot> own_slots();

 private:
  struct Shard {
    std::vector<Slice> slices;
    Buffer<float> parameters;  // of the slices, one after the other
    Buffer<float> gradient;
    std::unique_ptr<Optimizer> optimizer;  // of as many elements
  };
  /// Full-size buffers of which a shard is a part, in the order in which they travel.
  std::vector<std::span<float>> whole_buffers(Optimizer& optimizer);
  std::vector<std::span<float>> buffers_of(Shard& shard) const;

  Layout layout_;
  WorkerGroup workers_;
  ServedParametersOptions options_;
  ShardRange own_;
  std::vector<std::vector<Slice>> all_shards_;
  std::vector<Shard> shards_;  // this rank's
  Buffer<float> unrounded_;    // [flat elements], if rounded
  Stream stream_;
};

}  // namespace terngrad
