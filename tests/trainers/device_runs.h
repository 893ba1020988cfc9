// Small training runs on GPUs, or on replicas that share one GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/device_examples.h"
#include "datasets/sets/transformed_images.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/stream_fork.h"
#include "nets/device_net.h"
#include "tests/support/thread_device_communicator.h"
#include "tests/trainers/small_training.h"
#include "trainers/loop/device_replica.h"
#include "trainers/loop/device_trainer.h"
#include "trainers/optim/gradient_transform.h"

namespace terngrad::testing {

/// The set without its promise of constant images, so that they are streamed to the GPUs.
inline std::shared_ptr<const Dataset> streamed(std::shared_ptr<const Dataset> set) {
  return transformed_images(
      std::move(set), [](std::int64_t, const ExampleVisit&, std::span<float>) {}, /*is_augmented=*/true);
}

/// Configuration of a run: one process with one GPU, or with several replicas that share it.
struct DeviceRun {
  SmallRun run;                             // run.transforms is ignored
  int num_replicas = 1;                     // per process
  std::shared_ptr<Meeting> gpus = nullptr;  // meeting of the replicas of all processes; nullptr: this process only
  double timeout_seconds = 0;               // processes wait this long for each other
  double gpu_timeout_seconds = 0;           // GPUs wait this long; 0: timeout_seconds / 2, as in training
  Watchdog::Action on_hang = end_process("test");
  /// Makes the communicator of a rank; nullptr: ThreadDeviceCommunicator.
  std::function<std::shared_ptr<DeviceCommunicator>(int rank)> communicator_of = nullptr;
  /// Wraps the net of a replica; nullptr: no wrapper.
  std::function<std::unique_ptr<DeviceNet>(std::unique_ptr<DeviceNet>)> wrap_net = nullptr;
  /// Transforms after weight decay.
  std::function<std::vector<std::unique_ptr<GradientTransform>>(const Net&)> transforms = nullptr;
  int max_burst = 4;
  bool captures = true;            // captures CUDA graphs of steps where the exchange allows it
  bool can_capture_ranks = false;  // the communicator's operations can be captured
  double clip_by_global_norm = 0;
  std::string format = "t2";
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAuto;  // for steps that do not exchange fp32
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  std::uint64_t floating_from = kNoSyncStep;  // first step that exchanges fp32
  std::optional<int> first_gpu = {};          // replica r uses GPU first_gpu + r; nullopt: GPU 0
};

inline std::unique_ptr<DeviceReplica> make_replica(const DeviceRun& device_run,
                                                   std::shared_ptr<DeviceCommunicator> communicator) {
  const SmallRun& run = device_run.run;
  static const std::shared_ptr<const Dataset> digits = small_digits(40, kSmallImage);
  const std::shared_ptr<const Dataset> dataset = run.dataset != nullptr ? run.dataset : digits;
  const WorkerRange workers = worker_range(run.num_workers, communicator->rank(), communicator->size());
  const Stream stream(Device::cuda(device_run.first_gpu ? *device_run.first_gpu + communicator->rank() : 0));
  const NetOptions net{.num_local_workers = workers.num_local_workers,
                       .examples_per_worker = static_cast<int>(run.batch_size / run.num_workers),
                       .first_local_worker = workers.first_local_worker,
                       .seed = run.seed};
  DeviceReplicaParts parts;
  parts.num_workers = workers.num_local_workers;
  parts.first_worker = workers.first_local_worker;
  parts.net = make_device_net(run.net, {dataset->height(), dataset->width(), dataset->channels()}, 10, net,
                              MathMode::kFp32, stream);
  if (device_run.wrap_net) parts.net = device_run.wrap_net(std::move(parts.net));
  PipelineOptions pipeline;
  pipeline.batch_size = run.batch_size;
  pipeline.num_workers = run.num_workers;
  pipeline.first_local_worker = workers.first_local_worker;
  pipeline.num_local_workers = workers.num_local_workers;
  pipeline.seed = run.seed;
  parts.examples = make_device_examples(dataset, pipeline, device_run.max_burst, stream);
  CompressedAllReduceOptions exchange;
  exchange.codecs.codec = spec_of(run.codec, "clip_factor=2.5,format=" + device_run.format);
  exchange.algorithm = device_run.algorithm;
  exchange.downlink_codec = device_run.downlink_codec;
  exchange.on_nonfinite = run.on_nonfinite;
  exchange.seed = run.seed;
  const Layout& layout = parts.net->layout();
  if (run.bucket_bytes > 0) parts.buckets = plan_buckets(layout, parts.net->gradient_order(), run.bucket_bytes);
  if (run.overlap) parts.fork = std::make_shared<StreamFork>(stream, 1);
  const auto add_exchange = [&] {
    parts.exchanges.push_back(std::make_unique<CompressedAllReduce>(
        layout, ExchangePeers{workers, communicator}, exchange, run.overlap ? parts.fork->branch(0) : stream));
  };
  add_exchange();
  exchange.codecs.codec = "fp32";
  exchange.algorithm = ExchangeAlgorithm::kAuto;
  if (exchange.downlink_codec != DownlinkCodec::kBfloat16) exchange.downlink_codec = DownlinkCodec::kFloat32;
  if (device_run.floating_from != kNoSyncStep) add_exchange();
  parts.communicator = communicator;
  parts.mean_factor = run.mean_factor;
  parts.timeout_seconds =
      device_run.gpu_timeout_seconds > 0 ? device_run.gpu_timeout_seconds : device_run.timeout_seconds / 2;
  const bool can_capture = communicator->size() == 1 || device_run.can_capture_ranks;
  parts.captures = device_run.captures && can_capture && device_run.format != "tmask";
  const Device device = stream.device();
  parts.optimizer = make_optimizer("momentum", {.momentum = 0.9}, layout.flat_elements(), device);
  if (run.weight_decay > 0) parts.transforms.push_back(make_weight_decay(*parts.net, run.weight_decay, device));
  if (device_run.clip_by_global_norm > 0) {
    parts.transforms.push_back(
        make_clip_by_global_norm(layout, device_run.clip_by_global_norm, parts.num_workers, run.on_nonfinite, device));
  }
  if (device_run.transforms) {
    for (auto& transform : device_run.transforms(*parts.net)) parts.transforms.push_back(std::move(transform));
  }
  return std::make_unique<DeviceReplica>(std::move(parts), device_run.max_burst);
}

inline std::unique_ptr<DeviceTrainer> make_device_trainer(const DeviceRun& device_run) {
  const SmallRun& run = device_run.run;
  const std::shared_ptr<Communicator> processes =
      run.communicator != nullptr ? run.communicator : make_self_communicator();
  const int first_rank = processes->rank() * device_run.num_replicas;
  const auto meeting =
      device_run.gpus != nullptr ? device_run.gpus : std::make_shared<Meeting>(device_run.num_replicas);
  DeviceTrainerParts parts;
  for (int rank = first_rank; rank < first_rank + device_run.num_replicas; ++rank) {
    std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator();
    if (device_run.communicator_of) {
      communicator = device_run.communicator_of(rank);
    } else if (meeting->size() > 1) {
      communicator = std::make_shared<ThreadDeviceCommunicator>(meeting, rank);
    }
    parts.replicas.push_back(make_replica(device_run, communicator));
  }
  parts.timeout_seconds = device_run.timeout_seconds;
  parts.on_hang = device_run.on_hang;
  parts.schedule = {.kind = ScheduleKind::kPolynomial,
                    .initial_rate = run.learning_rate,
                    .total_steps = static_cast<std::int64_t>(run.total_steps)};
  parts.workers = make_worker_group(run.num_workers, processes);
  parts.on_nonfinite = run.on_nonfinite;
  parts.exchange_of = [from = device_run.floating_from](std::uint64_t step) {
    return step >= from ? std::size_t{1} : std::size_t{0};
  };
  TrainerOptions options;
  options.batch_size = run.batch_size;
  options.total_steps = run.total_steps;
  options.seed = run.seed;
  options.rebroadcast_steps = run.rebroadcast_steps;
  return std::make_unique<DeviceTrainer>(std::move(parts), options);
}

}  // namespace terngrad::testing
