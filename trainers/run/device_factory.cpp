#include "trainers/run/device_factory.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "compress/comm/watchdog.h"
#include "datasets/device_examples.h"
#include "kernels/runtime/errors.h"
#include "trainers/loop/device_replica.h"
#include "trainers/loop/device_trainer.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/train_options.h"
#include "trainers/run/connect_ranks.h"
#include "trainers/run/device_replica_factory.h"
#include "trainers/run/gpu_peers.h"

namespace terngrad {

DeviceSetup make_device_setup(const TrainOptions& o, const TrainDevices& choice, const std::vector<GpuPeers>& gpus,
                              const TrainingData& data, const WorkerGroup& workers, const Schedule& schedule,
                              const TrainerOptions& options, double timeout_seconds) {
  TERNGRAD_REQUIRE(gpus.size() == choice.gpus.size(), "[make_device_setup] ", choice.gpus.size(),
                   " GPUs have the connections of ", gpus.size());
  const std::shared_ptr<const Dataset>& dataset = data.dataset;
  DeviceSetup setup;
  DeviceTrainerParts parts;
  for (std::size_t index = 0; index < choice.gpus.size(); ++index) {
    const DeviceCommunicator& among_all = *gpus[index].all;
    const ReplicaPlace place{.workers = worker_range(workers.num_workers, among_all.rank(), among_all.size()),
                             .of_process = workers,
                             .device = choice.gpus[index],
                             .peers = gpus[index],
                             // The second half of the timeout remains to find out which process is lost.
                             .timeout_seconds = timeout_seconds / 2};
    parts.replicas.push_back(make_device_replica(o, choice, place, dataset, options));
  }
  DeviceReplica& chief = *parts.replicas[0];
  setup.plan_fingerprint = o.encodes_gradients() ? chief.plan_fingerprint() : chief.net().layout().fingerprint();
  setup.notes = chief.net().notes();
  if (chief.examples_placement() == ExamplesPlacement::kStreamed) {
    setup.notes.emplace_back("examples are prepared by the CPU and uploaded step by step");
  }
  if (host_waits_for_sizes(o)) {
    setup.notes.emplace_back(
        "payloads of sizes that depend on the data, as those of ternary's format tmask: the host waits for them in "
        "every step");
  }
  for (const std::string& codec : chief.codecs_through_host()) {
    setup.notes.push_back(
        "codec " + codec +
        " has no kernels for GPUs: gradients go through the host, which waits for them in every step");
  }
  if (o.on_nonfinite != OnNonfinite::kStop) {
    setup.notes.push_back("--on_nonfinite " + word_of(o.on_nonfinite) + ": the host looks after every step");
  }
  parts.schedule = schedule;
  parts.workers = workers;
  parts.on_nonfinite = o.on_nonfinite;
  parts.timeout_seconds = timeout_seconds;
  parts.on_hang = end_process(failing_process(*workers.communicator));
  parts.exchange_of = exchange_of_steps(o, data.num_examples);
  setup.trainer = std::make_unique<DeviceTrainer>(std::move(parts), options);
  return setup;
}

}  // namespace terngrad
