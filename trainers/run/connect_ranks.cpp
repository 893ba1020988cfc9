#include "trainers/run/connect_ranks.h"

#include <future>
#include <iterator>
#include <sstream>
#include <utility>

#include "compress/comm/nccl/nccl_communicator.h"
#include "compress/comm/watchdog.h"
#include "compress/transport/grouped_peers.h"
#include "kernels/runtime/errors.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/gpu_peers.h"

namespace terngrad {
namespace {

std::vector<std::shared_ptr<DeviceCommunicator>> join_gpus(const TrainDevices& choice, Communicator& processes) {
  if (processes.size() == 1 && choice.gpus.size() == 1) return {make_self_device_communicator()};
  auto joined =
      processes.size() == 1 ? make_nccl_communicators(choice.gpus) : join_nccl_communicators(choice.gpus, processes);
  return {std::make_move_iterator(joined.begin()), std::make_move_iterator(joined.end())};
}

/// Peers of each GPU. Those of groups wait for each other, each in a thread of its own.
std::vector<GpuPeers> peers_of(const TrainOptions& o,
                               const std::vector<std::shared_ptr<DeviceCommunicator>>& communicators) {
  std::vector<std::future<ExchangePeers>> made;
  for (const auto& communicator : communicators) {
    const WorkerRange workers = worker_range(o.num_nodes, communicator->rank(), communicator->size());
    made.push_back(std::async(std::launch::async, [&o, workers, communicator] {
      return grouped_peers(workers, o.workers_per_group, communicator);
    }));
  }
  std::vector<GpuPeers> peers;
  for (std::size_t gpu = 0; gpu < communicators.size(); ++gpu) peers.push_back({communicators[gpu], made[gpu].get()});
  return peers;
}

}  // namespace

std::string failing_process(const Communicator& processes) {
  return "terngrad_train: error" + (processes.size() == 1 ? "" : ": rank " + std::to_string(processes.rank()));
}

std::shared_ptr<const std::vector<GpuPeers>> connect_gpus(const TrainOptions& o, const TrainDevices& choice,
                                                          Communicator& processes, double timeout_seconds) {
  const auto peers = std::make_shared<std::vector<GpuPeers>>();
  const auto connect = [&] { *peers = peers_of(o, join_gpus(choice, processes)); };
  try {
    if (timeout_seconds == 0) {
      connect();
      return peers;
    }
    std::ostringstream doing;
    doing << "joining the GPUs of " << processes.size() << " processes has not ended in " << timeout_seconds
          << " seconds; a process or GPU that had come is silent, or NCCL cannot reach it";
    Watchdog watchdog(end_process(failing_process(processes)));
    watchdog.watch(timeout_seconds, doing.str(), connect);
    return peers;
  } catch (const NotSupported& error) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", choice.gpus.size(), ": ", error.what(), "; accepted: 1");
  }
}

std::shared_ptr<const ExchangePeers> connect_groups(const TrainOptions& o,
                                                    const std::shared_ptr<Communicator>& processes) {
  if (o.workers_per_group == 1) return nullptr;
  return std::make_shared<ExchangePeers>(grouped_peers(make_worker_group(o.num_nodes, processes), o.workers_per_group));
}

}  // namespace terngrad
