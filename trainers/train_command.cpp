#include "trainers/train_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "datasets/constant_images.h"
#include "datasets/dataset.h"
#include "kernels/errors.h"
#include "nets/net.h"
#include "trainers/atomic_file.h"
#include "trainers/checkpoint.h"
#include "trainers/command_main.h"
#include "trainers/event_file.h"
#include "trainers/event_hook.h"
#include "trainers/floating_epochs.h"
#include "trainers/gradient_transform.h"
#include "trainers/net_state.h"
#include "trainers/report_hooks.h"
#include "trainers/run_directory.h"
#include "trainers/stop_hook.h"
#include "trainers/train_options.h"
#include "trainers/trainer.h"
#include "trainers/warm_start.h"
#include "version.h"

namespace terngrad {
namespace {

constexpr const char* kUsage =
    "terngrad_train: trains a network with N emulated workers whose gradients are compressed and exchanged.\n"
    "Example: terngrad_train --grad_bits 1 --clip_factor 2.5 --num_nodes 8";

/// A folder of its own for a run that names none.
std::string default_train_dir(const TrainOptions& o) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  const std::string stem =
      "runs/" + o.dataset + "-" + o.net + "-" + o.codec_name() + "-n" + std::to_string(o.num_nodes) + "-" + stamp;
  std::string name = stem;
  for (int suffix = 2; std::filesystem::exists(name); ++suffix) name = stem + "-" + std::to_string(suffix);
  return name;
}

int num_threads(const TrainOptions& o) { return o.threads == 0 ? num_hardware_threads() : o.threads; }

int threads_per_worker(const TrainOptions& o) {
  if (o.threads_per_worker != 0) return o.threads_per_worker;
  return o.num_nodes == 1 ? num_threads(o) : 1;
}

std::shared_ptr<Dataset> open_dataset(const TrainOptions& o, Subset subset) {
  if (o.benchmark_mode) {
    try {
      return make_constant_images(o.dataset, o.image_size, o.seed);
    } catch (const InvalidArgument& error) {
      TERNGRAD_THROW(UsageError, "--benchmark_mode: ", error.what());
    }
  }
  DatasetOptions options;
  options.data_dir = o.data_dir;
  options.subset = subset;
  options.image_size = o.image_size;
  options.num_threads = num_threads(o);
  try {
    return make_dataset(o.dataset, options);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::unique_ptr<Net> open_net(const TrainOptions& o, const Dataset& dataset, const WorkerGroup& workers) {
  NetOptions options;
  options.num_local_workers = workers.num_local_workers;
  options.examples_per_worker = static_cast<int>(o.batch_size / o.num_nodes);
  options.threads_per_worker = threads_per_worker(o);
  options.num_threads = num_threads(o);
  options.first_local_worker = workers.first_local_worker;
  options.seed = o.seed;
  try {
    return make_net(o.net, {dataset.height(), dataset.width(), dataset.channels()}, dataset.num_classes(), options);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::unique_ptr<Strategy> open_strategy(const TrainOptions& o, const Layout& layout, const WorkerGroup& workers,
                                        std::int64_t num_examples, std::uint64_t& plan_fingerprint) {
  plan_fingerprint = layout.fingerprint();
  if (o.strategy_name() == "simple") return make_simple_strategy(layout, exchange_options(o, o.seed, 1).on_nonfinite);
  // Messages of one process reach no other, so the seed tells runs apart well enough.
  try {
    auto exchange = std::make_unique<CompressedAllReduce>(layout, workers, exchange_options(o, o.seed, num_threads(o)));
    check_codec_plan(o, exchange->plan());
    plan_fingerprint = exchange->plan().fingerprint();
    auto compressed = make_replicated_strategy(layout, std::move(exchange));
    if (o.floating_grad_epoch == 0) return compressed;
    auto floating = make_replicated_strategy(
        layout,
        std::make_unique<CompressedAllReduce>(layout, workers, floating_exchange_options(o, o.seed, num_threads(o))));
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
    transforms.push_back(make_clip_by_global_norm(net.layout(), o.clip_by_global_norm, workers.num_local_workers));
  }
  return transforms;
}

CheckpointState checkpoint_state(const TrainOptions& o, std::uint64_t plan_fingerprint) {
  CheckpointState state;
  state.net = o.net;
  state.dataset = o.benchmark_mode ? o.dataset + " (constant images)" : o.dataset;
  state.optimizer = o.optimizer;
  state.num_workers = o.num_nodes;
  state.seed = o.seed;
  state.more["batch_size"] = std::to_string(o.batch_size);
  state.more["image_size"] = std::to_string(o.image_size);
  state.more["codec"] = o.codec_name();
  state.more["exchange_fingerprint"] = std::to_string(plan_fingerprint);
  // What else decides the bits of the next step. Not max_steps: a run may be made longer, which stretches its schedule.
  state.more["threads_per_worker"] = std::to_string(threads_per_worker(o));
  state.more["initial_learning_rate"] = fmt::format("{}", o.initial_learning_rate);
  state.more["learning_rate_decay_type"] = o.learning_rate_decay_type;
  state.more["num_epochs_per_decay"] = fmt::format("{}", o.num_epochs_per_decay);
  state.more["learning_rate_decay_factor"] = fmt::format("{}", o.learning_rate_decay_factor);
  state.more["momentum"] = fmt::format("{}", o.momentum);
  state.more["weight_decay"] = fmt::format("{}", o.weight_decay);
  state.more["clip_by_global_norm"] = fmt::format("{}", o.clip_by_global_norm);
  state.more["nan_to_zero"] = o.nan_to_zero ? "true" : "false";
  state.more["ema_decay"] = fmt::format("{}", o.ema_decay);
  state.more["return_codec"] = o.return_codec;
  state.more["floating_grad_epoch"] = std::to_string(o.floating_grad_epoch);
  state.more["on_nonfinite"] = o.on_nonfinite;
  return state;
}

/// Loads the newest checkpoint of the run in --train_dir into the trainer. @returns its step, 0 without one
std::uint64_t restore(const TrainOptions& o, const CheckpointState& expected, Trainer& trainer, Interval& interval) {
  const std::optional<CheckpointFile> latest = latest_checkpoint(o.train_dir);
  if (!latest) return 0;
  const Checkpoint checkpoint = load_checkpoint(latest->path);
  checkpoint.check_same_run(expected);
  const std::uint64_t step = checkpoint.state().step;
  if (step > static_cast<std::uint64_t>(o.max_steps)) {
    TERNGRAD_THROW(UsageError, "--max_steps ", o.max_steps, ": the run in --train_dir ", o.train_dir, " has done ",
                   step, " steps; accepted: ", step, " or more");
  }
  const Layout& layout = trainer.net().layout();
  checkpoint.read_group("parameters", layout, trainer.parameters());
  checkpoint.read_group("ema", layout, trainer.ema().shadow());
  for (const Optimizer::Slot& slot : trainer.optimizer().slots()) {
    checkpoint.read_group("slots/" + slot.name, layout, slot.values);
  }
  trainer.optimizer().restore_state(checkpoint.state().more);
  restore_states(checkpoint, trainer);
  const auto saved_interval = checkpoint.state().more.find(kIntervalKey);
  if (saved_interval != checkpoint.state().more.end()) interval = parse_interval(saved_interval->second);
  trainer.set_steps_done(step);
  return step;
}

/// The step of the last evaluation in a metrics file.
std::optional<std::uint64_t> last_evaluation(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::optional<std::uint64_t> step;
  std::istringstream lines(read_file_text(path));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.value("kind", nlohmann::json()) == "test") step = line.at("step").get<std::uint64_t>();
  }
  return step;
}

/// Begins a new run with the parameters of a checkpoint; the average begins with them too.
void start_from(const TrainOptions& o, Trainer& trainer) {
  const Checkpoint checkpoint = load_checkpoint(o.init_from);
  const WarmStart what = o.fine_tune ? WarmStart::kNoLogits : WarmStart::kAll;
  warm_start(checkpoint, trainer.net().layout(), what, trainer.parameters());
  std::ranges::copy(trainer.parameters(), trainer.ema().shadow().begin());
}

/// Refuses to start over a run that began with another's parameters: without a checkpoint of its own they are not
/// known.
void require_no_warm_start(const RunDirectory& directory) {
  const auto config = nlohmann::json::parse(read_file_text(directory.config_path()), nullptr, false);
  const nlohmann::json::json_pointer first_start("/history/0/options/init_from");
  if (!config.contains(first_start) || config.value(first_start, "").empty()) return;
  TERNGRAD_THROW(UsageError, "--resume: the run in ", directory.path().string(),
                 " began with --init_from and has no checkpoint yet; remove the folder and start it again");
}

/// Trains and @returns the exit code.
int train(const TrainOptions& o, const RunDescription& description) {
  const WorkerGroup workers = make_worker_group(o.num_nodes, make_self_communicator());
  const std::shared_ptr<Dataset> dataset = open_dataset(o, Subset::kTrain);
  const std::shared_ptr<Dataset> test_set = o.benchmark_mode ? nullptr : open_dataset(o, Subset::kTest);
  TrainerParts parts;
  parts.net = open_net(o, *dataset, workers);
  parts.dataset = dataset;
  parts.workers = workers;
  std::uint64_t plan_fingerprint = 0;
  parts.strategy = open_strategy(o, parts.net->layout(), workers, dataset->num_examples(), plan_fingerprint);
  parts.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, parts.net->layout().flat_elements());
  parts.transforms = make_transforms(o, *parts.net, workers);
  parts.schedule = make_schedule(o, dataset->num_examples());
  TrainerOptions trainer_options;
  trainer_options.batch_size = o.batch_size;
  trainer_options.total_steps = static_cast<std::uint64_t>(o.max_steps);
  trainer_options.seed = o.seed;
  trainer_options.ema_decay = o.ema_decay;
  trainer_options.num_threads = num_threads(o);
  trainer_options.num_data_threads = o.num_preprocess_threads;
  Trainer trainer(std::move(parts), trainer_options);
  const CheckpointState state = checkpoint_state(o, plan_fingerprint);

  std::uint64_t first_step = 0;
  Interval interval;
  if (!o.init_from.empty()) start_from(o, trainer);
  const RunDirectory directory =
      o.resume ? RunDirectory::resume(o.train_dir) : RunDirectory::create(o.train_dir, description);
  if (o.resume) {
    first_step = restore(o, state, trainer, interval);
    if (!latest_checkpoint(o.train_dir)) require_no_warm_start(directory);
    directory.record_start(description, first_step);
  }
  std::optional<std::uint64_t> evaluated;
  if (o.resume) {
    truncate_to_step(directory.metrics_path(), first_step);
    evaluated = last_evaluation(directory.metrics_path());
  }
  const bool goes_on = o.on_save_error == "continue";
  const OnWriteError on_write_error = goes_on ? OnWriteError::kKeep : OnWriteError::kThrow;
  MetricsWriter metrics(directory.metrics_path(), on_write_error);
  std::optional<EventFile> events;
  if (o.tensorboard) {
    events.emplace(directory.path(), wall_seconds, on_write_error);
    if (o.resume) events->purge_from(first_step + 1);
    follow_metrics(metrics, *events);
    trainer.add_hook(make_histogram_hook(*events, static_cast<std::uint64_t>(o.histogram_steps)));
  }
  ProgressDisplay display;
  display.message("training " + o.net + " on " + o.dataset + ": " +
                  std::to_string(trainer.net().layout().num_elements()) + " parameters, " +
                  std::to_string(o.num_nodes) + " workers of " + std::to_string(o.batch_size / o.num_nodes) +
                  " examples, codec " + o.codec_name() + ", " + std::to_string(num_threads(o)) + " threads, in " +
                  directory.path().string());
  if (o.resume) {
    display.message(first_step > 0 ? "resumed after step " + std::to_string(first_step)
                                   : "there is no checkpoint yet: starting over");
  }
  trainer.add_hook(make_progress_hook(display, static_cast<std::uint64_t>(o.log_steps)));
  trainer.add_hook(make_metrics_hook(metrics, static_cast<std::uint64_t>(o.log_steps),
                                     static_cast<std::uint64_t>(o.telemetry_steps), interval));
  if (test_set != nullptr) {
    auto evaluation = std::make_unique<EvaluationHook>(test_set, metrics, display,
                                                       static_cast<std::uint64_t>(o.eval_steps), num_threads(o));
    if (evaluated) evaluation->set_evaluated(*evaluated);
    trainer.add_hook(std::move(evaluation));
  }
  CheckpointHookOptions saves;
  saves.directory = directory.path();
  saves.save_steps = static_cast<std::uint64_t>(o.save_iter);
  saves.keep_last = o.keep_checkpoints;
  saves.on_error = goes_on ? OnSaveError::kContinue : OnSaveError::kStop;
  saves.save_at_start = !o.init_from.empty();
  trainer.add_hook(std::make_unique<CheckpointHook>(std::move(saves), state, metrics, interval, display));
  const StopSignal stop_signal;
  trainer.add_hook(make_stop_hook(stop_signal, o.stop_after_secs, display));
  std::uint64_t steps_done = 0;
  try {
    steps_done = trainer.run();
    // What was kept back while the disk was full is not to be lost.
    metrics.sync();
    if (events) events->sync();
  } catch (const Error& error) {
    display.finish();
    const auto saved = latest_checkpoint(directory.path());
    TERNGRAD_THROW(Error, error.what(),
                   saved ? "; go on from " + saved->path.string() + " with --resume"
                         : std::string("; no checkpoint was saved yet"));
  }
  std::cout << "run directory: " << directory.path().string() << "\n";
  if (steps_done == trainer_options.total_steps) return kExitSuccess;
  std::cout << "stopped after step " << steps_done << " of " << trainer_options.total_steps
            << "; go on with the same options, --train_dir " << directory.path().string() << " and --resume\n";
  return stop_signal.received() == 0 ? kExitSuccess : kExitSignal + stop_signal.received();
}

}  // namespace

int run_train(int argc, char** argv) {
  TrainOptions o;
  OptionSet options(kUsage);
  declare_train_options(options, o);
  const ParseResult parsed = options.parse(argc, argv);
  apply_dataset_defaults(options, o);
  if (parsed.help_requested) {
    std::cout << options.help();
    return 0;
  }
  if (parsed.version_requested) {
    std::cout << "terngrad_train " << kVersion << " (" << kCommit << ")\n";
    return 0;
  }
  check_train_options(options, o);
  if (o.train_dir.empty()) o.train_dir = default_train_dir(o);
  RunDescription description;
  description.command = "terngrad_train";
  description.arguments.assign(argv + 1, argv + argc);
  description.options = options.values();
  description.version = kVersion;
  description.commit = kCommit;
  return train(o, description);
}

}  // namespace terngrad
