#include "trainers/run/train_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/mailbox.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/launch/out_of_memory.h"
#include "trainers/loop/host_trainer.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"
#include "trainers/run/async_factory.h"
#include "trainers/run/connect_ranks.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/device_factory.h"
#include "trainers/run/exchange_factory.h"
#include "trainers/run/initial_state.h"
#include "trainers/run/memory_check.h"
#include "trainers/run/net_factory.h"

namespace terngrad {
namespace {

Schedule open_schedule(const TrainOptions& o, std::int64_t num_examples) {
  try {
    return make_schedule(o, num_examples);
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, "--num_epochs_per_decay ", o.num_epochs_per_decay, ": ", error.what());
  }
}

/// Creates a trainer in host memory. @param setup  provides the devices; notes are appended
std::unique_ptr<Trainer> make_host_trainer(const TrainOptions& o, const TrainingData& data, const WorkerGroup& workers,
                                           const RunContext& context, const Schedule& schedule,
                                           const TrainerOptions& options, TrainSetup& setup,
                                           std::uint64_t& plan_fingerprint) {
  TrainerParts parts;
  parts.dataset = data.dataset;
  parts.net = make_host_net(o, *data.dataset, workers, setup.devices, setup.notes);
  parts.workers = workers;
  parts.served = make_served_parameters(o, *parts.net, workers, schedule);
  plan_fingerprint = add_host_exchanges(
      o, {.run_id = context.run_id, .num_examples = data.num_examples, .dump = context.dump, .groups = context.groups},
      parts);
  parts.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, parts.net->layout().flat_elements());
  parts.transforms = make_transforms(o, *parts.net, workers.num_local_workers, Device::cpu());
  if (auto last = parts.optimizer->message_transform()) parts.transforms.push_back(std::move(last));
  parts.schedule = schedule;
  return std::make_unique<HostTrainer>(std::move(parts), options);
}

/// Sets up --strategy async. @returns the fingerprint of its codec plan
std::uint64_t make_async(const TrainOptions& o, const RunContext& context,
                         const std::shared_ptr<const Dataset>& dataset, const Schedule& schedule,
                         const TrainerOptions& options, TrainSetup& setup) {
  WorkerGroup one;
  one.num_workers = o.num_nodes;
  AsyncSetupParts parts;
  parts.dataset = dataset;
  parts.mailbox = context.mailbox;
  parts.run_id = context.run_id;
  // Worker i uses GPU i modulo the number of GPUs; the first GPU evaluates.
  std::vector<TrainDevices> places;
  for (const Device& gpu : context.devices.gpus) places.push_back({.gpus = {gpu}, .math = context.devices.math});
  if (places.empty()) places.emplace_back();
  std::vector<std::string> known;  // notes of workers after the first, which are the same
  parts.make_worker_net = [&](int worker) {
    TrainOptions own = o;
    own.threads = own.threads_per_worker = threads_per_worker(o);
    one.first_local_worker = worker;
    const TrainDevices& its_place = places[static_cast<std::size_t>(worker) % places.size()];
    return make_host_net(own, *dataset, one, its_place, worker == 0 ? setup.notes : known);
  };
  parts.make_evaluation_net = [&] {
    WorkerGroup none = one;
    none.num_local_workers = 0;
    // On ranks with workers the net only provides the layout.
    const bool evaluates = context.mailbox == nullptr || context.mailbox->rank() == 0;
    return make_host_net(o, *dataset, none, evaluates ? places.front() : TrainDevices{}, known);
  };
  parts.make_transforms = [&](const Net& net) { return make_transforms(o, net, 1, Device::cpu()); };
  parts.schedule = schedule;
  parts.trainer = options;
  parts.threads_per_worker = threads_per_worker(o);
  AsyncSetup async;
  try {
    async = make_async_setup(o, parts);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  if (async.trainer) setup.notes.push_back(async.note);
  setup.trainer = std::move(async.trainer);
  setup.run_workers = std::move(async.run_workers);
  setup.conclusion = std::move(async.conclusion);
  return async.plan_fingerprint;
}

void add_note_on_scalers(const TrainOptions& o, TrainSetup& setup) {
  if (setup.trainer == nullptr) return;  // a worker rank of --strategy async
  std::string note = note_on_scalers(o, setup.trainer->net().layout());
  if (!note.empty()) setup.notes.push_back(std::move(note));
}

/// --exchange_timeout for several processes or GPUs, else 0.
double gpu_timeout(const TrainOptions& o, const RunContext& context) {
  return context.communicator->size() > 1 || context.devices.gpus.size() > 1 ? o.exchange_timeout : 0;
}

/// Creates the trainer and fills the rest of `setup`.
void make_trainer(const TrainOptions& o, const RunContext& context, const TrainingData& data, TrainSetup& setup) {
  const Schedule schedule = open_schedule(o, data.num_examples);
  TrainerOptions options;
  options.batch_size = o.batch_size;
  options.total_steps = static_cast<std::uint64_t>(o.max_steps);
  options.seed = o.seed;
  options.ema_decay = o.ema_decay;
  options.mean_factor = o.mean_factor();
  options.workers_per_group = o.workers_per_group;
  options.has_data_shard = data.is_shard;
  options.trace = context.trace;
  options.num_threads = num_threads(o);
  options.num_data_threads = o.num_preprocess_threads;
  options.shuffle = shuffle_of(o);
  if (o.rebroadcast_epochs > 0) {
    const std::int64_t steps = o.rebroadcast_epochs * data.num_examples / o.batch_size;
    options.rebroadcast_steps = static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 1));
  }
  const bool is_on_host = setup.devices.is_cpu_run() || o.exchanges_on_host();
  if (is_on_host && !setup.devices.is_cpu_run()) {
    setup.notes.emplace_back("GPUs compute gradients, which are encoded, exchanged and applied by the CPU");
  }
  const int ranks_per_process = is_on_host ? 1 : static_cast<int>(setup.devices.gpus.size());
  options.overlap = overlaps(o, context.communicator->size() * ranks_per_process);
  std::uint64_t plan_fingerprint = 0;
  if (is_async(o)) {
    check_async_memory(o, *data.dataset, context.mailbox.get(), context.devices.is_cpu());
    plan_fingerprint = make_async(o, context, data.dataset, schedule, options, setup);
    setup.identity = run_identity(o, data, plan_fingerprint);
    setup.state = initial_state(setup.identity);
    return;
  }
  const WorkerGroup workers = make_worker_group(o.num_nodes, context.communicator, o.num_servers);
  if (is_on_host) {
    check_memory(o, *data.dataset, workers.num_local_workers, setup.devices.is_cpu());
    setup.trainer = make_host_trainer(o, data, workers, context, schedule, options, setup, plan_fingerprint);
  } else {
    try {
      DeviceSetup on_gpus =
          make_device_setup(o, setup.devices, *context.gpus, data, workers, schedule, options, gpu_timeout(o, context));
      setup.trainer = std::move(on_gpus.trainer);
      std::ranges::move(on_gpus.notes, std::back_inserter(setup.notes));
      plan_fingerprint = on_gpus.plan_fingerprint;
    } catch (const InvalidArgument& error) {
      throw UsageError(error.what());
    }
  }
  setup.identity = run_identity(o, data, plan_fingerprint);
  setup.state = initial_state(setup.identity);
}

}  // namespace

RunContext make_run_context(const TrainOptions& o, std::shared_ptr<Communicator> communicator, std::uint64_t run_id) {
  RunContext context{.communicator = std::move(communicator), .run_id = run_id, .devices = devices_of(o)};
  if (context.devices.is_cpu() || o.exchanges_on_host()) {
    context.groups = connect_groups(o, context.communicator);
    return context;
  }
  context.gpus = connect_gpus(o, context.devices, *context.communicator, gpu_timeout(o, context));
  return context;
}

TrainSetup make_train_setup(const TrainOptions& o) {
  return make_train_setup(o, make_run_context(o, make_self_communicator(), 0));
}

TrainSetup make_train_setup(const TrainOptions& o, const RunContext& context) {
  TrainSetup setup;
  setup.devices = context.devices;
  const TrainingData data =
      context.data.dataset != nullptr ? context.data : whole_data(open_dataset(o, Subset::kTrain));
  if (!o.benchmark_mode) setup.test_set = open_dataset(o, Subset::kTest);
  if (setup.test_set != nullptr) check_test_set(o, *data.dataset, *setup.test_set);
  setup.data_summary = data_summary(data, setup.test_set.get());
  say_when_out_of_memory(
      fmt::format("setting up {} of {} workers of {} examples", o.net, o.num_nodes, o.batch_size / o.num_nodes),
      [&] { make_trainer(o, context, data, setup); });
  add_note_on_scalers(o, setup);
  if (std::string note = note_on_memory(o); !note.empty()) setup.notes.push_back(std::move(note));
  return setup;
}

}  // namespace terngrad
