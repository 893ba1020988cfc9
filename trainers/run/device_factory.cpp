#include "trainers/run/device_factory.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "compress/comm/nccl/nccl_communicator.h"
#include "compress/comm/watchdog.h"
#include "compress/exchange/device/device_bucketed_all_reduce.h"
#include "datasets/device_examples.h"
#include "kernels/runtime/errors.h"
#include "trainers/loop/device_trainer.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/options/compression_option_checks.h"

namespace terngrad {
namespace {

std::string process_text(const Communicator& processes) {
  return "terngrad_train: error" + (processes.size() == 1 ? "" : ": rank " + std::to_string(processes.rank()));
}

std::vector<std::unique_ptr<NcclCommunicator>> join(const DeviceChoice& choice, Communicator& processes,
                                                    double timeout_seconds) {
  if (timeout_seconds == 0) return join_nccl_communicators(choice.gpus, processes);
  std::vector<std::unique_ptr<NcclCommunicator>> joined;
  std::ostringstream doing;
  doing << "joining the GPUs of " << processes.size() << " processes has not ended in " << timeout_seconds
        << " seconds; a process that had come is silent, or NCCL cannot reach it";
  Watchdog watchdog(end_process(process_text(processes)));
  watchdog.watch(timeout_seconds, doing.str(), [&] { joined = join_nccl_communicators(choice.gpus, processes); });
  return joined;
}

/// In the order in which they are applied.
std::vector<std::unique_ptr<DeviceTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                              OnNonfinite on_nonfinite, const Device& device) {
  std::vector<std::unique_ptr<DeviceTransform>> transforms;
  if (o.nan_to_zero) transforms.push_back(make_device_nan_to_zero());
  if (o.weight_decay > 0) transforms.push_back(make_device_weight_decay(net, o.weight_decay, device));
  if (o.clip_by_global_norm > 0) {
    transforms.push_back(
        make_device_clip_by_global_norm(net.layout(), o.clip_by_global_norm, num_workers, on_nonfinite, device));
  }
  return transforms;
}

/// The exchange of compressed steps, and that of floating ones if there are any.
std::vector<std::unique_ptr<DeviceBucketedAllReduce>> make_exchanges(
    const TrainOptions& o, const DeviceNet& net, const WorkerRange& workers, const Stream& stream,
    const std::shared_ptr<DeviceCommunicator>& communicator, bool overlaps) {
  const Layout& layout = net.layout();
  // With nothing to hide, buckets would only add launches to a step.
  const bool is_alone = communicator->size() == 1 && !overlaps;
  const Buckets buckets = exchange_buckets(o, layout, net.gradient_order(),
                                           is_alone ? std::numeric_limits<double>::infinity() : kDefaultBucketMb);
  const auto fork = overlaps ? std::make_shared<StreamFork>(stream, 1) : nullptr;
  const auto in_buckets = [&](const CompressedAllReduceOptions& options) {
    return std::make_unique<DeviceBucketedAllReduce>(layout, workers, options, buckets, stream, communicator, fork);
  };
  std::vector<std::unique_ptr<DeviceBucketedAllReduce>> exchanges;
  exchanges.push_back(in_buckets(exchange_options(o, o.seed, 1)));
  check_codec_plan(o, exchanges[0]->plan());
  if (o.floating_grad_epoch > 0) exchanges.push_back(in_buckets(floating_exchange_options(o, o.seed, 1)));
  return exchanges;
}

/// Steps of a burst: as many as there is room for, where a ring holds the batches of them.
int max_burst(const Dataset& dataset, const WorkerRange& workers, const TrainerOptions& options) {
  constexpr std::int64_t kMaxRingBytes = std::int64_t{1} << 30;
  const std::int64_t batch_bytes = options.batch_size / workers.num_workers * workers.num_local_workers *
                                   dataset.image_elements() * static_cast<std::int64_t>(sizeof(float));
  return static_cast<int>(std::clamp<std::int64_t>(kMaxRingBytes / batch_bytes, 2, kMaxBurst));
}

struct ReplicaPlace {
  WorkerRange workers;
  WorkerRange of_process;  // of all of its GPUs
  Device device;
  std::shared_ptr<DeviceCommunicator> communicator;
  double timeout_seconds = 0;  // of a burst
};

DeviceReplicaParts make_parts(const TrainOptions& o, const DeviceChoice& choice, const ReplicaPlace& place,
                              const std::shared_ptr<const Dataset>& dataset, const TrainerOptions& options) {
  const Stream stream(place.device);
  NetOptions net;
  net.num_local_workers = place.workers.num_local_workers;
  net.examples_per_worker = static_cast<int>(options.batch_size / place.workers.num_workers);
  net.first_local_worker = place.workers.first_local_worker;
  net.seed = options.seed;
  DeviceReplicaParts parts;
  parts.num_workers = place.workers.num_local_workers;
  parts.net = make_device_net(o.net, {dataset->height(), dataset->width(), dataset->channels()}, dataset->num_classes(),
                              net, choice.math, stream, {.dropout_keep_prob = static_cast<float>(o.dropout_keep_prob)});
  PipelineOptions examples = pipeline_options(place.workers, place.of_process, options);
  examples.num_threads = std::max(1, options.num_data_threads / static_cast<int>(choice.gpus.size()));
  parts.examples = make_device_examples(dataset, examples, max_burst(*dataset, place.workers, options), stream);
  const Layout& layout = parts.net->layout();
  parts.exchanges = make_exchanges(o, *parts.net, place.workers, stream, place.communicator, options.overlap);
  parts.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, layout.flat_elements(), stream.device());
  parts.transforms = make_transforms(o, *parts.net, parts.num_workers, on_nonfinite_of(o), stream.device());
  parts.communicator = place.communicator;
  parts.mean_factor = options.mean_factor;
  parts.timeout_seconds = place.timeout_seconds;
  // The size of such a payload depends on the data: the host waits for it.
  parts.captures = o.ternary_format != "tmask";
  return parts;
}

}  // namespace

std::vector<std::shared_ptr<DeviceCommunicator>> connect_gpus(const DeviceChoice& choice, Communicator& processes,
                                                              double timeout_seconds) {
  if (processes.size() == 1 && choice.gpus.size() == 1) return {make_self_device_communicator()};
  try {
    auto connected =
        processes.size() == 1 ? make_nccl_communicators(choice.gpus) : join(choice, processes, timeout_seconds);
    return {std::make_move_iterator(connected.begin()), std::make_move_iterator(connected.end())};
  } catch (const NotSupported& error) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", choice.gpus.size(), ": ", error.what(), "; accepted: 1");
  }
}

DeviceSetup make_device_setup(const TrainOptions& o, const DeviceChoice& choice,
                              std::span<const std::shared_ptr<DeviceCommunicator>> communicators,
                              const TrainingData& data, const WorkerGroup& workers, const Schedule& schedule,
                              const TrainerOptions& options, double timeout_seconds) {
  TERNGRAD_REQUIRE(communicators.size() == choice.gpus.size(), "[make_device_setup] ", choice.gpus.size(),
                   " GPUs have ", communicators.size(), " communicators");
  const std::shared_ptr<const Dataset>& dataset = data.dataset;
  DeviceSetup setup;
  DeviceTrainerParts parts;
  for (std::size_t index = 0; index < choice.gpus.size(); ++index) {
    const DeviceCommunicator& among_all = *communicators[index];
    const ReplicaPlace place{.workers = worker_range(workers.num_workers, among_all.rank(), among_all.size()),
                             .of_process = workers,
                             .device = choice.gpus[index],
                             .communicator = communicators[index],
                             // The other half is for finding out whom it waits for.
                             .timeout_seconds = timeout_seconds / 2};
    parts.replicas.push_back(std::make_unique<DeviceReplica>(make_parts(o, choice, place, dataset, options),
                                                             max_burst(*dataset, place.workers, options)));
  }
  DeviceReplica& chief = *parts.replicas[0];
  setup.plan_fingerprint =
      o.strategy_name() == "simple" ? chief.net().layout().fingerprint() : chief.exchange(0).plan().fingerprint();
  setup.notes = chief.net().notes();
  if (chief.examples_placement() == ExamplesPlacement::kStreamed) {
    setup.notes.emplace_back("examples are prepared by the CPU and uploaded step by step");
  }
  if (o.ternary_format == "tmask") {
    setup.notes.emplace_back("--ternary_format tmask: the host waits for the sizes of payloads in every step");
  }
  if (o.on_nonfinite != "stop") {
    setup.notes.push_back("--on_nonfinite " + o.on_nonfinite + ": the host looks after every step");
  }
  parts.schedule = schedule;
  parts.workers = workers;
  parts.on_nonfinite = on_nonfinite_of(o);
  parts.timeout_seconds = timeout_seconds;
  parts.on_hang = end_process(process_text(*workers.communicator));
  if (o.floating_grad_epoch > 0) {
    parts.exchange_of = [batch_size = o.batch_size, num_examples = data.num_examples,
                         period = o.floating_grad_epoch](std::uint64_t step) {
      return is_floating_step(step, batch_size, num_examples, period) ? std::size_t{1} : std::size_t{0};
    };
  }
  setup.trainer = std::make_unique<DeviceTrainer>(std::move(parts), options);
  return setup;
}

}  // namespace terngrad
