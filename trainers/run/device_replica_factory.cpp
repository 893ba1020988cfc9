#include "trainers/run/device_replica_factory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/device_examples.h"
#include "kernels/runtime/stream_fork.h"
#include "nets/device_net.h"
#include "trainers/loop/device_replica.h"
#include "trainers/loop/trainer_options.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/exchange_factory.h"
#include "trainers/run/gpu_peers.h"

namespace terngrad {
namespace {

/// Creates the exchanges and their buckets.
void add_exchanges(const TrainOptions& o, const GpuPeers& peers, bool overlaps, DeviceReplicaParts& parts) {
  const Stream& stream = parts.net->stream();
  const Layout& layout = parts.net->layout();
  // Without overlap buckets would only add launches to a step.
  const bool is_alone = parts.communicator->size() == 1 && !overlaps;
  parts.buckets = exchange_buckets(o, layout, parts.net->gradient_order(),
                                   is_alone ? std::numeric_limits<double>::infinity() : kDefaultBucketMb);
  if (overlaps) parts.fork = std::make_shared<StreamFork>(stream, 1);
  for (auto& exchange : make_exchanges(o, layout, peers.exchange, overlaps ? parts.fork->branch(0) : stream, o.seed)) {
    parts.exchanges.push_back(std::move(exchange));
  }
}

/// Maximum number of steps in a burst, such that a ring with the batches of two bursts fits kMaxRingBytes.
int max_burst(const Dataset& dataset, const WorkerRange& workers, const TrainerOptions& options) {
  constexpr std::int64_t kMaxRingBytes = std::int64_t{1} << 30;
  const std::int64_t batch_bytes = options.batch_size / workers.num_workers * workers.num_local_workers *
                                   dataset.image_elements() * static_cast<std::int64_t>(sizeof(float));
  return static_cast<int>(std::clamp<std::int64_t>(kMaxRingBytes / 2 / batch_bytes, 1, kMaxBurst));
}

}  // namespace

std::unique_ptr<DeviceReplica> make_device_replica(const TrainOptions& o, const TrainDevices& choice,
                                                   const ReplicaPlace& place,
                                                   const std::shared_ptr<const Dataset>& dataset,
                                                   const TrainerOptions& options) {
  const Stream stream(place.device);
  NetOptions net;
  net.num_local_workers = place.workers.num_local_workers;
  net.examples_per_worker = static_cast<int>(options.batch_size / place.workers.num_workers);
  net.first_local_worker = place.workers.first_local_worker;
  net.seed = options.seed;
  DeviceReplicaParts parts;
  parts.num_workers = place.workers.num_local_workers;
  parts.first_worker = place.workers.first_local_worker;
  parts.net = make_device_net(o.net, {dataset->height(), dataset->width(), dataset->channels()}, dataset->num_classes(),
                              net, choice.math, stream, {.dropout_keep_prob = static_cast<float>(o.dropout_keep_prob)});
  PipelineOptions examples = pipeline_options(place.workers, place.of_process, options);
  examples.num_threads = std::max(1, options.num_data_threads / static_cast<int>(choice.gpus.size()));
  parts.examples = make_device_examples(dataset, examples, max_burst(*dataset, place.workers, options), stream);
  const Layout& layout = parts.net->layout();
  parts.communicator = place.peers.all;
  const ExchangePeers& peers = place.peers.exchange;
  for (const auto& communicator : {peers.device, peers.members.device}) {
    if (communicator != nullptr && communicator != parts.communicator)
      parts.group_communicators.push_back(communicator);
  }
  add_exchanges(o, place.peers, options.overlap, parts);
  parts.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, layout.flat_elements(), stream.device());
  parts.transforms = make_transforms(o, *parts.net, parts.num_workers, stream.device());
  if (auto last = parts.optimizer->message_transform()) parts.transforms.push_back(std::move(last));
  parts.mean_factor = options.mean_factor;
  parts.timeout_seconds = place.timeout_seconds;
  // No capture if the host waits for data-dependent payload sizes or runs codecs without kernels.
  const auto is_on_device = [&](const auto& exchange) { return exchange->codecs_through_host(parts.buckets).empty(); };
  parts.captures = !host_waits_for_sizes(o) && std::ranges::all_of(parts.exchanges, is_on_device);
  return std::make_unique<DeviceReplica>(std::move(parts), max_burst(*dataset, place.workers, options));
}

}  // namespace terngrad
