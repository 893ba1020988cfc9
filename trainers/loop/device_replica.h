// DeviceReplica: the part of a training run that one GPU holds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"
#include "nets/device_net.h"
#include "trainers/loop/step_ring.h"
#include "trainers/optim/optimizer.h"

namespace terngrad {

class DeviceBucketedAllReduce;
class DeviceExamples;
class GradientTransform;
struct WorkerGradients;
class FactorState;
class WorkerMemory;
enum class ExamplesPlacement;
struct FlatRange;

/// Steps that a GPU may run without the host.
inline constexpr int kMaxBurst = 64;

/// What a replica is put together from, all on one stream of one GPU.
struct DeviceReplicaParts {
  std::unique_ptr<DeviceNet> net;  // of the workers whose number num_workers says
  int num_workers = 1;
  std::unique_ptr<DeviceExamples> examples;  // of the same workers
  /// The exchange of a step is one of these; see DeviceReplica::run. One that overlaps continues beside the backward
  /// pass, bucket by bucket; then transforms must be per tensor.
  std::vector<std::unique_ptr<DeviceBucketedAllReduce>> exchanges;
  std::string memory = "none";           // before the first of the exchanges: a spec, as parse_memory takes it
  std::unique_ptr<Optimizer> optimizer;  // with slots on the GPU
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator();  // of the exchanges
  float mean_factor = 1;                                                               // as TrainerOptions::mean_factor
  /// How long a burst may take where others have a part in it, before they count as lost. 0: for ever.
  double timeout_seconds = 0;
  /// Whether steps are captured into CUDA graphs. Not where an exchange waits for the host: with payloads whose size
  /// depends on the data (tmask), a codec that goes through the host, or a communicator that meets on the host.
  bool captures = true;
};

/// State of a run in host memory, to be loaded into a GPU and stored from it.
struct ReplicaState {
  std::span<float> parameters;
  std::span<float> ema;
  std::span<float> state_ema;
  std::vector<std::span<float>> states;     // one per worker of the replica
  std::vector<std::span<float>> kept = {};  // by its memory, one per worker
  std::span<float> factors = {};            // that all ranks keep alike, FactorState::layout
  std::vector<Optimizer::Slot> slots = {};  // in the optimizer's order
};

/// A copy of the parameters, the optimizer's slots and the averages in a GPU's memory, with the workers that the GPU
/// computes. A step, from the examples to the averages, is captured into a CUDA graph when its exchange has run once,
/// and replayed: the host neither waits in it nor copies, nor allocates.
class DeviceReplica {
 public:
  /// @param max_burst  most steps that run without the host
  /// @throws InvalidArgument without an exchange, or for a transform of whole gradients with one that overlaps
  DeviceReplica(DeviceReplicaParts parts, int max_burst);
  ~DeviceReplica();

  void load(const ReplicaState& state);
  /// Loads parameters, average and slots alone: what all replicas have in common.
  void load_shared(const ReplicaState& state);
  void store(const ReplicaState& state);

  /// Makes the steps from `first_step` on, one per input, ready to run. Other ranks have no part in it.
  /// @throws whatever reading the examples throws; fewer steps can still be prepared
  void prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Prepares these steps and runs the first, with each of the exchanges, without a word to other ranks, and waits:
  /// what steps need is allocated and loaded then. What they began with is lost: load and prepare follow.
  void rehearse(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Runs `count` steps that are prepared, and waits for them. Applied updates are counted. All ranks must run the
  /// same.
  /// @param exchange_of  which of the exchanges a step takes
  /// @param lost         set where this rank fails, or by another one: then operations between ranks are given up
  /// @param meet         returns when all ranks of this process have called it: graphs are made when none of their GPUs
  /// waits for another
  /// @returns what each step gave
  /// @throws CommunicationError if another rank is lost, or is waited for longer than the parts' timeout_seconds;
  /// DeviceError. The communicator is given up then, and nothing but store() may follow
  std::vector<StepOutcome> run(std::uint64_t first_step, int count,
                               const std::function<std::size_t(std::uint64_t step)>& exchange_of,
                               std::atomic<bool>& lost, const std::function<void()>& meet);

  /// Gives up the operations between ranks, for good, so that no other rank waits for them.
  void give_up() noexcept;

  DeviceNet& net() { return *parts_.net; }
  Optimizer& optimizer() { return *parts_.optimizer; }
  DeviceBucketedAllReduce& exchange(std::size_t index) { return *parts_.exchanges.at(index); }
  /// Of the codec plan of the first exchange.
  std::uint64_t plan_fingerprint() const;
  /// The names of codecs without kernels, of any exchange.
  std::set<std::string> codecs_through_host() const;
  int num_workers() const { return parts_.num_workers; }
  int max_burst() const { return ring_.num_slots(); }
  ExamplesPlacement examples_placement() const;
  WorkerMemory* memory() { return memory_.get(); }
  /// Of the first of the exchanges, in the GPU's memory.
  FactorState& factors();
  /// Copies tensor `segment` of a worker's gradient, transforms applied, to the host. @param worker  of this replica
  std::vector<float> gradient(int worker, int segment);
  /// The same of what a memory made of it for the exchange; empty: it was encoded as it is.
  std::vector<float> encoded(std::size_t exchange, int segment);
  /// The same of the mean gradient, as the update took it.
  std::vector<float> mean(int segment);

 private:
  /// @param buffer  that holds a model's tensors at its begin
  /// @param values  of a whole layout, in device memory
  std::vector<float> tensor_on_host(std::span<const float> values, int segment);
  void submit_step(std::size_t exchange);
  /// All gradients, then the exchange.
  void compute_then_exchange(DeviceBucketedAllReduce& exchange, WorkerMemory* memory);
  /// The exchange of each bucket as soon as it is computed. The same bits.
  void compute_while_exchanging(DeviceBucketedAllReduce& exchange, WorkerMemory* memory);
  void submit_gradients(const SegmentSubmitted& on_segment);
  WorkerGradients worker_gradients();
  void submit_transforms(const FlatRange& range);
  void submit_steps(std::uint64_t first_step, int count,
                    const std::function<std::size_t(std::uint64_t step)>& exchange_of, const std::atomic<bool>& lost,
                    const std::function<void()>& meet);
  /// Waits for the stream; where there are other ranks, not longer than the burst may take.
  void wait(const std::atomic<bool>& lost);
  void submit_update(DeviceBucketedAllReduce& exchange);
  /// The memory before an exchange; null: none.
  WorkerMemory* memory_of(std::size_t exchange) { return exchange == 0 ? memory_.get() : nullptr; }

  DeviceReplicaParts parts_;
  std::unique_ptr<WorkerMemory> memory_;  // null: workers keep nothing
  Stream stream_;
  std::int64_t flat_elements_;
  std::int64_t state_elements_;
  StepRing ring_;
  Buffer<float> parameters_, ema_, mean_;
  Buffer<float> gradients_;                           // [workers][flat_elements_]
  Buffer<float> states_, states_before_, state_ema_;  // [workers][state_elements_], except for the average
  Buffer<WorkerLoss> losses_;
  std::vector<TensorTable> gradient_tables_;
  TensorTable mean_table_;
  std::map<std::size_t, CapturedGraph> graphs_;  // a step with each of the exchanges that has run
  std::chrono::steady_clock::time_point burst_began_;
};

}  // namespace terngrad
