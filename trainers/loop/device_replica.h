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
#include "compress/exchange/bucket_plan.h"
#include "compress/route/exchange_report.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"
#include "nets/device_net.h"
#include "trainers/loop/step_ring.h"
#include "trainers/optim/optimizer.h"

namespace terngrad {

class CompressedAllReduce;
class DeviceExamples;
class GradientTransform;
class SharedState;
class StreamFork;
class TrainedTensors;
class WorkerMemory;
struct WorkerGradients;
enum class ExamplesPlacement;
struct FlatRange;

/// Most steps that a GPU runs without the host.
inline constexpr int kMaxBurst = 64;

/// Components of a replica, all on one stream of one GPU.
struct DeviceReplicaParts {
  std::unique_ptr<DeviceNet> net;  // computes num_workers workers
  int num_workers = 1;
  int first_worker = 0;                      // global number of the first of them
  std::unique_ptr<DeviceExamples> examples;  // for the same workers
  /// Exchanges of the net's tensors, of which each step uses one; see DeviceReplica::run.
  std::vector<std::shared_ptr<CompressedAllReduce>> exchanges;
  Buckets buckets;  // parts of each step, in order; empty: all tensors at once
  /// If set, buckets are exchanged during the backward pass, in the first branch of this fork of the net's stream. The
  /// exchanges are then made on the stream of that branch, and transforms must be per tensor.
  std::shared_ptr<StreamFork> fork;
  std::unique_ptr<Optimizer> optimizer;  // with slots on the GPU
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator();  // communicator of the exchanges
  std::vector<std::shared_ptr<DeviceCommunicator>> group_communicators;                // the others, if groups exchange
  float mean_factor = 1;                                                               // as in TrainerOptions
  /// Timeout of a burst with several GPUs, after which the others count as lost; 0: none.
  double timeout_seconds = 0;
  /// True if steps are captured into CUDA graphs. Must be false if an exchange waits for the host: for payloads of
  /// data-dependent size (tmask), codecs that run on the host, or a communicator that synchronizes on the host.
  bool captures = true;
};

/// Views of a run's state in host memory, to copy to a GPU and back.
struct ReplicaState {
  std::span<float> parameters;
  std::span<float> ema;
  std::span<float> state_ema;
  std::vector<std::span<float>> states;     // one per worker of the replica
  std::vector<std::span<float>> kept = {};  // state of its memory, one per worker or group that exchanges here
  std::span<float> shared = {};             // equal on all ranks; layout: SharedState::layout
  std::vector<Optimizer::Slot> slots = {};  // in the optimizer's order
};

/// Parameters, optimizer slots and moving averages in a GPU's memory, with the workers that the GPU computes. A step,
/// from the examples to the averages, is captured into a CUDA graph after its exchange has run once, and then replayed:
/// no waits, copies or allocations by the host.
class DeviceReplica {
 public:
  /// @param max_burst  maximum number of steps that run without the host
  /// @throws InvalidArgument without an exchange, for buckets that check_buckets refuses, or with a fork if a transform
  /// is not per tensor
  DeviceReplica(DeviceReplicaParts parts, int max_burst);
  ~DeviceReplica();

  /// Copies the state to the GPU, and waits.
  void load(const ReplicaState& state);
  /// Loads only parameters, average and slots, which are equal on all replicas.
  void load_shared(const ReplicaState& state);
  /// Copies the state from the GPU to `state`, and waits.
  void store(const ReplicaState& state);

  /// Sets the tensors that later steps train. Steps are then captured anew, so with several replicas `rehearse` comes
  /// next.
  void set_trained(const TrainedTensors& trained);

  /// Prepares inputs and examples of inputs.size() steps from `first_step` on. No communication.
  /// @throws errors of reading the examples; fewer steps can still be prepared then
  void prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Runs the first of these steps with each exchange, without communication, and waits: afterwards everything that
  /// steps need is allocated and loaded. It overwrites the replica's state: call load and prepare next.
  void rehearse(std::uint64_t first_step, std::span<const cuda::StepInput> inputs);
  /// Runs `count` prepared steps, waits for them, and counts applied updates. Collective: all ranks run the same steps.
  /// @param exchange_of  index of the exchange that a step uses
  /// @param lost         shared flag: set if a replica fails; the others then abandon their communication
  /// @param meet         barrier of the process's replicas: graphs are created while no GPU waits for another
  /// @returns the outcome of each step
  /// @throws CommunicationError if another rank is lost or does not answer within timeout_seconds; DeviceError. The
  /// communicator is unusable then, and only store() may follow
  std::vector<StepOutcome> run(std::uint64_t first_step, int count,
                               const std::function<std::size_t(std::uint64_t step)>& exchange_of,
                               std::atomic<bool>& lost, const std::function<void()>& meet);

  /// Abandons the communicator for good, so that no other rank waits for this one.
  void give_up() noexcept;

  DeviceNet& net() { return *parts_.net; }
  Optimizer& optimizer() { return *parts_.optimizer; }
  /// Report of a step that ran with this exchange, without times; CompressedAllReduce::report.
  ExchangeReport report(std::size_t exchange, std::uint64_t step);
  /// Bytes of a step with this exchange.
  ExchangeBytes bytes(std::size_t exchange) const;
  /// Decodes what worker 0 sent of the tensor in the last step; CompressedAllReduce::decode_local.
  float decode_sent(std::size_t exchange, int segment, std::span<float> out);
  /// Fingerprint of the first exchange's codec plan.
  std::uint64_t plan_fingerprint() const;
  /// Names of the codecs of all exchanges that have no kernels and run on the host.
  std::set<std::string> codecs_through_host() const;
  /// First steps of the stages of the codecs (CodecPlan::stages). If there are several, there is one exchange, and an
  /// index means a stage of it.
  const std::vector<std::uint64_t>& stages() const { return stages_; }
  int num_workers() const { return parts_.num_workers; }
  int max_burst() const { return ring_.num_slots(); }
  ExamplesPlacement examples_placement() const;
  /// The workers' memory; nullptr without one.
  WorkerMemory* memory();
  /// State of the first exchange that is equal on all ranks, in GPU memory.
  SharedState& shared();
  /// Copies tensor `segment` of a worker's transformed gradient to the host. @param worker  index within this replica
  std::vector<float> gradient(int worker, int segment);
  /// The same for the mean of worker 0's group (CompressedAllReduce::group_mean); empty without groups.
  std::vector<float> group_mean(std::size_t exchange, int segment);
  /// The same for the compensated gradient of worker 0, which was encoded; empty if no memory covers the tensor.
  std::vector<float> encoded(std::size_t exchange, int segment);
  /// The same for the mean gradient, as the update used it.
  std::vector<float> mean(int segment);

 private:
  std::vector<float> on_host(std::span<const float> values);
  /// @param values  flat buffer in device memory
  std::vector<float> tensor_on_host(std::span<const float> values, int segment);
  void submit_step(std::size_t exchange);
  /// Submits all gradients, then the exchange.
  void compute_then_exchange(CompressedAllReduce& exchange);
  /// Submits the exchange of each bucket as soon as its gradients are computed. Same bits.
  void compute_while_exchanging(CompressedAllReduce& exchange);
  /// Calls `body` with every communicator.
  template <class Body>
  void for_each_communicator(const Body& body) {
    body(*parts_.communicator);
    for (const auto& communicator : parts_.group_communicators) body(*communicator);
  }
  /// The stream waits for the work that the branch got so far.
  void join_after_failure() noexcept;
  void submit_gradients(const SegmentSubmitted& on_segment);
  WorkerGradients worker_gradients();
  void submit_transforms(const FlatRange& range);
  void submit_steps(std::uint64_t first_step, int count,
                    const std::function<std::size_t(std::uint64_t step)>& exchange_of, const std::atomic<bool>& lost,
                    const std::function<void()>& meet);
  /// Waits for the stream. @throws CommunicationError if another rank is lost or the burst times out
  void wait(const std::atomic<bool>& lost);
  void submit_update(CompressedAllReduce& exchange);

  DeviceReplicaParts parts_;
  std::unique_ptr<TrainedTensors> trained_;
  Buckets buckets_;  // parts_.buckets without frozen tensors
  Stream stream_;
  std::int64_t flat_elements_;
  std::int64_t state_elements_;
  StepRing ring_;
  Buffer<float> parameters_, ema_, mean_;
  Buffer<float> gradients_;                           // [workers][flat_elements_]
  Buffer<float> states_, states_before_, state_ema_;  // [workers][state_elements_]; the average: [state_elements_]
  Buffer<WorkerLoss> losses_;
  std::vector<TensorTable> gradient_tables_;
  TensorTable mean_table_;
  std::vector<std::uint64_t> stages_ = {0};
  std::map<std::size_t, CapturedGraph> graphs_;  // captured steps by index of their exchange
  std::chrono::steady_clock::time_point burst_began_;
};

}  // namespace terngrad
