#include "trainers/run/train_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/exchange/vendor_all_reduce.h"
#include "datasets/formats/input_file.h"
#include "datasets/pipeline.h"
#include "datasets/sets/constant_images.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "nets/net_plan.h"
#include "nets/offloaded_net.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/launch/out_of_memory.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/loop/host_trainer.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/options/async_options.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/run/async_factory.h"
#include "trainers/run/device_factory.h"
#include "trainers/run/memory_estimate.h"

namespace terngrad {
namespace {

int threads_per_worker(const TrainOptions& o) {
  if (o.threads_per_worker != 0) return o.threads_per_worker;
  return o.num_nodes == 1 ? num_threads(o) : 1;
}

bool is_data_folder(const std::string& data_dir) {
  try {
    return is_folder(data_dir);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--data_dir: ", error.what());
  }
}

/// The data set as the user names it, for messages.
std::string data_name(const TrainOptions& o) {
  return o.dataset + (o.data_dir.empty() ? "" : " in '" + o.data_dir + "'");
}

std::shared_ptr<Dataset> open_dataset(const TrainOptions& o, Subset subset) {
  if (o.benchmark_mode) {
    try {
      return make_constant_images(o.dataset, o.image_size, o.seed);
    } catch (const InvalidArgument& error) {
      TERNGRAD_THROW(UsageError, "--benchmark_mode: ", error.what());
    }
  }
  if (!o.data_dir.empty() && !is_data_folder(o.data_dir)) {
    TERNGRAD_THROW(UsageError, "--data_dir ", o.data_dir, ": there is no such folder");
  }
  DatasetOptions options;
  options.data_dir = o.data_dir;
  options.subset = subset;
  options.image_size = o.image_size;
  options.num_threads = num_threads(o);
  try {
    return say_when_out_of_memory("opening data set " + data_name(o), [&] { return make_dataset(o.dataset, options); });
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::string shape_text(const Dataset& dataset) {
  return fmt::format("images of {}x{}x{} in {} classes", dataset.height(), dataset.width(), dataset.channels(),
                     dataset.num_classes());
}

NetSpec spec_of(const TrainOptions& o) {
  return net_spec(o.net, {.dropout_keep_prob = static_cast<float>(o.dropout_keep_prob)});
}

/// Buffers as long as the parameters that an optimizer has for its slots.
int num_slots(const std::string& optimizer) {
  if (optimizer == "gd") return 0;
  return optimizer == "momentum" ? 1 : 2;
}

/// What this rank needs of host memory, where gradients are exchanged there.
/// @param num_local_workers  that this rank computes gradients of
/// @param is_cpu             whether their nets are in host memory too
MemoryUse memory_use(const TrainOptions& o, int num_local_workers, bool is_cpu) {
  MemoryUse use{.num_workers = num_local_workers, .examples_per_worker = o.batch_size / o.num_nodes};
  // A worker of --strategy async has parameters of its own.
  use.buffers_per_worker = is_async(o) ? 2 : 1;
  // Parameters, their averages, the mean gradient. Servers that update parameters divide the slots.
  use.shared_buffers = 3 + (o.pulls_parameters() ? 0 : num_slots(o.optimizer));
  if (is_cpu) {
    const bool one_by_one = threads_per_worker(o) > 1 && !is_async(o);
    const int at_once = is_async(o) ? num_local_workers : std::min(num_threads(o), num_local_workers);
    use.slices_at_once = one_by_one ? std::min(1, num_local_workers) : at_once;
  }
  use.batches_at_once = PipelineOptions{}.prefetch_batches + 1;
  use.data = data_name(o);
  return use;
}

/// @throws UsageError as require_memory
void check_memory(const TrainOptions& o, const Dataset& dataset, const MemoryUse& use) {
  try {
    const ImageShape shape{dataset.height(), dataset.width(), dataset.channels()};
    require_memory(estimate_memory(plan_net(spec_of(o), shape, dataset.num_classes()), use), memory_limit());
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

/// A net in host memory.
/// @param devices  what computes it; GPUs in the order of its workers
/// @param notes    appended to: what was found out about GPUs
std::unique_ptr<Net> open_net(const TrainOptions& o, const Dataset& dataset, const WorkerGroup& workers,
                              const DeviceChoice& devices, std::vector<std::string>& notes) {
  NetOptions options;
  // A server computes no gradients, but may evaluate.
  options.num_local_workers = std::max(workers.num_local_workers, 1);
  options.examples_per_worker = workers.is_server() ? 1 : static_cast<int>(o.batch_size / o.num_nodes);
  options.threads_per_worker = threads_per_worker(o);
  options.num_threads = num_threads(o);
  options.first_local_worker = workers.first_local_worker;
  options.seed = o.seed;
  const ImageShape shape{dataset.height(), dataset.width(), dataset.channels()};
  try {
    const NetSpec spec = spec_of(o);
    if (devices.is_cpu()) return make_net(spec, shape, dataset.num_classes(), options);
    auto net = std::make_unique<OffloadedNet>(spec, shape, dataset.num_classes(), options, devices.math, devices.gpus);
    std::ranges::copy(net->notes(), std::back_inserter(notes));
    return net;
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

/// What servers hold that update the parameters; nullptr if the workers' replicas do.
std::unique_ptr<ServedParameters> open_served(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                              const Schedule& schedule, const TrainerOptions& options) {
  if (!o.pulls_parameters()) return nullptr;
  ServedParametersOptions served;
  served.make_optimizer = [name = o.optimizer, momentum = o.momentum](std::int64_t num_elements) {
    return make_optimizer(name, {.momentum = momentum}, num_elements);
  };
  served.schedule = schedule;
  served.mean_factor = options.mean_factor;
  served.is_rounded = o.return_codec == "bf16";
  served.num_threads = options.num_threads;
  return std::make_unique<ServedParameters>(net.layout(), workers, served);
}

/// The same workers, whose messages are written as they send them.
WorkerGroup with_dump(WorkerGroup workers, const std::shared_ptr<MessageDump>& dump) {
  if (dump == nullptr) return workers;
  workers.communicator = std::make_shared<ObservedCommunicator>(
      workers.communicator, [dump](std::span<const std::uint8_t> message) { dump->write(message); });
  return workers;
}

/// Tells the dump what the exchange's messages are of.
/// @throws UsageError where --exchange auto has chosen to add codes on their way, without messages
void describe_messages(const BucketedAllReduce& exchange, MessageDump& dump) {
  for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
    const CompressedAllReduce& part = exchange.exchange_of(bucket);
    if (part.algorithm() == ExchangeAlgorithm::kIntegerSum) {
      throw UsageError(
          "--dump_messages: --exchange auto is integer_sum here, which adds codes on their way, without messages; "
          "accepted with it: --exchange all_gather, scatter_reduce");
    }
    dump.add_layout(part.fingerprint(), part.layout(), part.plan());
  }
}

/// @param update  of the shares that servers own, or nullptr
std::unique_ptr<Strategy> open_strategy(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                        const TrainPlace& place, std::int64_t num_examples, ShareUpdate* update,
                                        std::uint64_t& plan_fingerprint) {
  const Layout& layout = net.layout();
  plan_fingerprint = layout.fingerprint();
  if (o.strategy_name() == "simple") return make_simple_strategy(layout, on_nonfinite_of(o));
  if (o.exchange == "vendor") {
    VendorAllReduceOptions vendor;
    vendor.type = vendor_element_type(o.codec_name());
    vendor.on_nonfinite = on_nonfinite_of(o);
    vendor.mean_factor = o.mean_factor();
    vendor.num_threads = num_threads(o);
    return make_replicated_strategy(layout, std::make_unique<VendorAllReduce>(layout, workers, vendor));
  }
  try {
    const Buckets buckets = exchange_buckets(o, layout, net.gradient_order());
    const auto in_buckets = [&](CompressedAllReduceOptions options) {
      options.update = update;
      auto exchange = std::make_unique<BucketedAllReduce>(layout, with_dump(workers, place.dump), options, buckets);
      if (place.dump != nullptr) describe_messages(*exchange, *place.dump);
      return exchange;
    };
    auto exchange = in_buckets(exchange_options(o, place.run_id, num_threads(o)));
    check_codec_plan(o, exchange->plan());
    plan_fingerprint = exchange->plan().fingerprint();
    auto compressed = make_replicated_strategy(layout, std::move(exchange));
    if (o.floating_grad_epoch == 0) return compressed;
    auto floating =
        make_replicated_strategy(layout, in_buckets(floating_exchange_options(o, place.run_id, num_threads(o))));
    return make_floating_epochs_strategy(
        std::move(compressed), std::move(floating),
        [batch_size = o.batch_size, num_examples, period = o.floating_grad_epoch](std::uint64_t step) {
          return is_floating_step(step, batch_size, num_examples, period);
        });
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

/// In the order in which they are applied.
std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net,
                                                                const WorkerGroup& workers) {
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  if (o.nan_to_zero) transforms.push_back(make_nan_to_zero());
  if (o.weight_decay > 0) transforms.push_back(make_weight_decay(net, o.weight_decay));
  if (o.clip_by_global_norm > 0) {
    transforms.push_back(
        make_clip_by_global_norm(net.layout(), o.clip_by_global_norm, workers.num_local_workers, on_nonfinite_of(o)));
  }
  return transforms;
}

Schedule open_schedule(const TrainOptions& o, std::int64_t num_examples) {
  try {
    return make_schedule(o, num_examples);
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, "--num_epochs_per_decay ", o.num_epochs_per_decay, ": ", error.what());
  }
}

/// The options that enter the codec plan, so that a difference has a name and not only a fingerprint.
void add_codec_options(const TrainOptions& o, CheckpointState& state) {
  state.more["codec"] = o.codec_name();
  state.more["codec_for"] = fmt::format("{}", fmt::join(o.codec_for, ","));
  state.more["clip_factor"] = fmt::format("{}", o.clip_factor);
  state.more["scaler"] = o.scaler;
  state.more["scaler_sharing"] = o.scaler_sharing;
  state.more["clip_scope"] = o.clip_scope;
  state.more["scaler_scope"] = o.scaler_scope;
  state.more["block_size"] = std::to_string(o.block_size);
  state.more["ternary_format"] = o.ternary_format;
  state.more["size_to_binarize"] = std::to_string(o.size_to_binarize);
  state.more["quantize_logits"] = o.quantize_logits ? "true" : "false";
}

CheckpointState checkpoint_state(const TrainOptions& o, const DeviceChoice& devices, const TrainingData& data,
                                 std::uint64_t plan_fingerprint) {
  CheckpointState state;
  state.net = o.net;
  state.dataset = o.benchmark_mode ? o.dataset + kConstantImagesSuffix : o.dataset;
  state.optimizer = o.optimizer;
  state.num_workers = o.num_nodes;
  state.seed = o.seed;
  state.more["batch_size"] = std::to_string(o.batch_size);
  state.more["image_size"] = std::to_string(o.image_size);
  add_codec_options(o, state);
  state.more["exchange_fingerprint"] = std::to_string(plan_fingerprint);
  // All exchanges but the library's own give the same bits.
  state.more["exchange"] = o.exchange == "vendor" ? "vendor" : "any but vendor";
  state.more["num_examples"] = std::to_string(data.num_examples);
  state.more["data_fingerprint"] = data.fingerprint;
  // What else decides the bits of the next step. A run may be made longer, so max_steps may differ: check_max_steps.
  state.more["max_steps"] = std::to_string(o.max_steps);
  if (devices.is_cpu_run()) {
    state.more["threads_per_worker"] = std::to_string(threads_per_worker(o));
  } else {
    state.more["math"] = o.math;
  }
  state.more["initial_learning_rate"] = fmt::format("{}", o.initial_learning_rate);
  state.more["learning_rate_decay_type"] = o.learning_rate_decay_type;
  state.more["num_epochs_per_decay"] = fmt::format("{}", o.num_epochs_per_decay);
  state.more["learning_rate_decay_factor"] = fmt::format("{}", o.learning_rate_decay_factor);
  state.more["momentum"] = fmt::format("{}", o.momentum);
  state.more["weight_decay"] = fmt::format("{}", o.weight_decay);
  state.more["clip_by_global_norm"] = fmt::format("{}", o.clip_by_global_norm);
  state.more["nan_to_zero"] = o.nan_to_zero ? "true" : "false";
  state.more["dropout_keep_prob"] = fmt::format("{}", o.dropout_keep_prob);
  state.more["ema_decay"] = fmt::format("{}", o.ema_decay);
  state.more["return_codec"] = o.return_codec;
  // Parameters that servers update have the same bits as the replicas' own, unless they are rounded on their way.
  state.more["pull"] = o.pulls_parameters() && o.return_codec != "fp32" ? "rounded parameters" : "any";
  state.more["reduce"] = o.reduce;
  state.more["floating_grad_epoch"] = std::to_string(o.floating_grad_epoch);
  state.more["on_nonfinite"] = o.on_nonfinite;
  state.more["strategy"] = is_async(o) ? "async" : kSynchronousStrategies;
  if (is_async(o)) {
    state.more["async_scale"] = fmt::format("{}", async_scale(o));
    state.more["max_staleness"] = std::to_string(o.max_staleness);
  }
  return state;
}

/// A trainer in host memory. @param setup  whose devices compute; notes are appended
std::unique_ptr<Trainer> make_host_trainer(const TrainOptions& o, const TrainingData& data, const WorkerGroup& workers,
                                           const TrainPlace& place, const Schedule& schedule,
                                           const TrainerOptions& options, TrainSetup& setup,
                                           std::uint64_t& plan_fingerprint) {
  TrainerParts parts;
  parts.dataset = data.dataset;
  parts.net = open_net(o, *data.dataset, workers, setup.devices, setup.notes);
  parts.workers = workers;
  parts.served = open_served(o, *parts.net, workers, schedule, options);
  parts.strategy =
      open_strategy(o, *parts.net, workers, place, data.num_examples, parts.served.get(), plan_fingerprint);
  parts.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, parts.net->layout().flat_elements());
  parts.transforms = make_transforms(o, *parts.net, workers);
  parts.schedule = schedule;
  return std::make_unique<HostTrainer>(std::move(parts), options);
}

/// Fills in what --strategy async consists of. @returns the fingerprint of its codec plan
std::uint64_t make_async(const TrainOptions& o, const TrainPlace& place, const std::shared_ptr<const Dataset>& dataset,
                         const Schedule& schedule, const TrainerOptions& options, TrainSetup& setup) {
  WorkerGroup one;
  one.num_workers = o.num_nodes;
  AsyncSetupParts parts;
  parts.dataset = dataset;
  parts.mailbox = place.mailbox;
  parts.run_id = place.run_id;
  // The GPUs take turns in computing workers' nets; the first one evaluates.
  std::vector<DeviceChoice> places;
  for (const Device& gpu : place.devices.gpus) places.push_back({.gpus = {gpu}, .math = place.devices.math});
  if (places.empty()) places.emplace_back();
  std::vector<std::string> known;  // of other workers than the first: what is found out is the same for all
  parts.make_worker_net = [&](int worker) {
    TrainOptions own = o;
    own.threads = own.threads_per_worker = threads_per_worker(o);
    one.first_local_worker = worker;
    const DeviceChoice& its_place = places[static_cast<std::size_t>(worker) % places.size()];
    return open_net(own, *dataset, one, its_place, worker == 0 ? setup.notes : known);
  };
  parts.make_evaluation_net = [&] {
    WorkerGroup none = one;
    none.num_local_workers = 0;
    // On ranks of workers it says what the net is made of, and no more.
    const bool evaluates = place.mailbox == nullptr || place.mailbox->rank() == 0;
    return open_net(o, *dataset, none, evaluates ? places.front() : DeviceChoice{}, known);
  };
  parts.make_transforms = [&](const Net& net) { return make_transforms(o, net, one); };
  parts.schedule = schedule;
  parts.trainer = options;
  parts.threads_per_worker = threads_per_worker(o);
  AsyncSetup async;
  try {
    async = make_async_setup(o, parts);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  if (async.trainer) {
    setup.conclusion = [trainer = async.trainer.get()] {
      return "staleness of all pushes, in updates since the pull\n" + trainer->push_counts().to_table();
    };
    setup.notes.push_back(async.note);
  }
  setup.trainer = std::move(async.trainer);
  setup.async_rank = std::move(async.rank);
  return async.plan_fingerprint;
}

void add_note_on_scalers(const TrainOptions& o, TrainSetup& setup) {
  if (setup.trainer == nullptr) return;  // a rank of --strategy async that only computes
  std::string note = note_on_scalers(o, setup.trainer->net().layout());
  if (!note.empty()) setup.notes.push_back(std::move(note));
}

/// memory_use of --strategy async: alone, a process has all workers; else the first one only serves.
MemoryUse async_memory_use(const TrainOptions& o, const TrainPlace& place) {
  if (place.mailbox == nullptr) return memory_use(o, o.num_nodes, place.devices.is_cpu());
  const bool serves = place.mailbox->rank() == 0;
  const int num_workers = serves ? 0 : o.num_nodes / (place.mailbox->size() - 1);
  MemoryUse use = memory_use(o, num_workers, place.devices.is_cpu());
  if (!serves) use.shared_buffers = 0;
  return use;
}

/// --exchange_timeout, which is for several processes or GPUs.
double gpu_timeout(const TrainOptions& o, const TrainPlace& place) {
  return place.communicator->size() > 1 || place.devices.gpus.size() > 1 ? o.exchange_timeout : 0;
}

/// Makes all of `setup` that comes after the data.
void make_trainer(const TrainOptions& o, const TrainPlace& place, const TrainingData& data, TrainSetup& setup) {
  const Schedule schedule = open_schedule(o, data.num_examples);
  TrainerOptions options;
  options.batch_size = o.batch_size;
  options.total_steps = static_cast<std::uint64_t>(o.max_steps);
  options.seed = o.seed;
  options.ema_decay = o.ema_decay;
  options.mean_factor = o.mean_factor();
  options.has_data_share = data.is_share;
  options.trace = place.trace;
  options.num_threads = num_threads(o);
  options.num_data_threads = o.num_preprocess_threads;
  if (o.rebroadcast_epochs > 0) {
    const std::int64_t steps = o.rebroadcast_epochs * data.num_examples / o.batch_size;
    options.rebroadcast_steps = static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 1));
  }
  const bool is_on_host = setup.devices.is_cpu_run() || o.exchanges_on_host();
  if (is_on_host && !setup.devices.is_cpu_run()) {
    setup.notes.emplace_back("GPUs compute gradients, which are encoded, exchanged and applied by the CPU");
  }
  const int ranks_per_process = is_on_host ? 1 : static_cast<int>(setup.devices.gpus.size());
  options.overlap = overlaps(o, place.communicator->size() * ranks_per_process);
  std::uint64_t plan_fingerprint = 0;
  if (is_async(o)) {
    check_memory(o, *data.dataset, async_memory_use(o, place));
    plan_fingerprint = make_async(o, place, data.dataset, schedule, options, setup);
    setup.state = checkpoint_state(o, setup.devices, data, plan_fingerprint);
    return;
  }
  const WorkerGroup workers = make_worker_group(o.num_nodes, place.communicator, o.num_servers);
  if (is_on_host) {
    check_memory(o, *data.dataset, memory_use(o, workers.num_local_workers, setup.devices.is_cpu()));
    setup.trainer = make_host_trainer(o, data, workers, place, schedule, options, setup, plan_fingerprint);
  } else {
    try {
      DeviceSetup on_gpus = make_device_setup(o, setup.devices, place.gpu_communicators, data, workers, schedule,
                                              options, gpu_timeout(o, place));
      setup.trainer = std::move(on_gpus.trainer);
      std::ranges::move(on_gpus.notes, std::back_inserter(setup.notes));
      plan_fingerprint = on_gpus.plan_fingerprint;
    } catch (const InvalidArgument& error) {
      throw UsageError(error.what());
    }
  }
  setup.state = checkpoint_state(o, setup.devices, data, plan_fingerprint);
}

}  // namespace

std::shared_ptr<const Dataset> open_training_set(const TrainOptions& o) { return open_dataset(o, Subset::kTrain); }

int num_threads(const TrainOptions& o) { return o.threads == 0 ? num_hardware_threads() : o.threads; }

void check_test_set(const TrainOptions& o, const Dataset& training_set, const Dataset& test_set) {
  const std::string training = shape_text(training_set);
  const std::string test = shape_text(test_set);
  if (training == test) return;
  TERNGRAD_THROW(DataError, "data set ", data_name(o), ": the training set has ", training, ", the test set ", test,
                 "; both must have the same");
}

TrainPlace make_train_place(const TrainOptions& o, std::shared_ptr<Communicator> communicator, std::uint64_t run_id) {
  TrainPlace place{
      .communicator = std::move(communicator), .run_id = run_id, .devices = devices_of(o), .gpu_communicators = {}};
  if (place.devices.is_cpu() || o.exchanges_on_host()) return place;
  place.gpu_communicators = connect_gpus(place.devices, *place.communicator, gpu_timeout(o, place));
  return place;
}

TrainSetup make_train_setup(const TrainOptions& o) {
  return make_train_setup(o, make_train_place(o, make_self_communicator(), 0));
}

TrainSetup make_train_setup(const TrainOptions& o, const TrainPlace& place) {
  TrainSetup setup;
  setup.devices = place.devices;
  const TrainingData data = place.data.dataset != nullptr ? place.data : whole_data(open_training_set(o));
  if (!o.benchmark_mode) setup.test_set = open_dataset(o, Subset::kTest);
  if (setup.test_set != nullptr) check_test_set(o, *data.dataset, *setup.test_set);
  setup.data_summary = data_summary(data, setup.test_set.get());
  say_when_out_of_memory(
      fmt::format("setting up {} of {} workers of {} examples", o.net, o.num_nodes, o.batch_size / o.num_nodes),
      [&] { make_trainer(o, place, data, setup); });
  add_note_on_scalers(o, setup);
  return setup;
}

}  // namespace terngrad
