#include "trainers/commands/train_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/version.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/eval_command.h"
#include "trainers/commands/launched_command.h"
#include "trainers/launch/cluster_environment.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/gpu_assignment.h"
#include "trainers/launch/process_group.h"
#include "trainers/launch/stop_signal.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/async_options.h"
#include "trainers/options/dataset_recipes.h"
#include "trainers/options/train_option_checks.h"
#include "trainers/options/train_options.h"
#include "trainers/run/rank_consistency.h"
#include "trainers/run/train_run.h"

namespace terngrad {
namespace {

constexpr const char* kTrainUsage =
    "terngrad_train: trains a network with N workers, emulated or on many hosts, whose gradients are compressed and "
    "exchanged.\n"
    "Example: terngrad_train --grad_bits 1 --clip_factor 2.5 --num_nodes 8";

/// A new folder name for a run without --train_dir.
std::string default_train_dir(const TrainOptions& o) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  // The process id distinguishes runs that start within the same second.
  const std::string stem = "runs/" + o.dataset + "-" + o.net + "-" + o.codec_name() + "-n" +
                           std::to_string(o.num_nodes) + "-" + stamp + "-" + std::to_string(::getpid());
  std::string name = stem;
  for (int suffix = 2; std::filesystem::exists(name); ++suffix) name = stem + "-" + std::to_string(suffix);
  return name;
}

/// The options with data_dir of this process's data shard, if it has one. @param processes  the whole launch
TrainOptions with_shard(TrainOptions o, const ProcessGroup& processes) {
  const int num_others = o.num_servers + (o.last_rank_evaluates ? 1 : 0);
  if (o.data_shards) o.data_dir = shard_folder(o.data_dir, processes.rank(), processes.size() - num_others);
  return o;
}

/// Runs the evaluator rank: evaluates the checkpoints that the others save in `directory`. Errors do not disturb the
/// training. @returns the exit code
int evaluate_along(const TrainOptions& o, const std::string& directory, ProcessGroup& processes) {
  const StopSignal signal;
  const auto problem = [](const std::string& what) { print_error("terngrad_train", "--last_rank_evaluates: " + what); };
  RunEvaluator evaluator({.directory = directory, .data_dir = o.data_dir, .threads = o.threads}, problem,
                         [&] { processes.send_launch_heartbeat(); });
  const auto is_over = [&] {
    processes.send_launch_heartbeat();
    return processes.others_have_ended() || signal.received() != 0;
  };
  // Exponential back-off after a failed poll, as polling uses the training's processors and file system.
  constexpr int kMostTenths = 300;
  int tenths = 10;
  while (!is_over()) {
    tenths = evaluator.look(is_over) ? 10 : std::min(2 * tenths, kMostTenths);
    for (int i = 0; i < tenths && !is_over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (signal.received() != 0) processes.request_stop(signal.received());
  // Wait until the others have saved and ended, for any time.
  while (!processes.others_have_ended()) {
    processes.send_launch_heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  // After a signal a launcher does not wait long, so evaluate the newest checkpoint only.
  const bool is_complete = signal.received() != 0 ? evaluator.look_at_newest() : evaluator.look();
  if (!is_complete) problem("not all checkpoints that are there are evaluated");
  if (signal.received() != 0) return kExitSignal + signal.received();
  return is_complete ? kExitSuccess : kExitFailure;
}

/// Runs this rank's part of a run. @returns the exit code
int run_rank(const TrainOptions& of_launch, RunDescription description, ProcessGroup& processes) {
  const TrainOptions o = with_shard(of_launch, processes);
  processes.set_timeout(o.exchange_timeout);
  if (o.memory) {
    std::cout << measure_memory(o, processes);
    return kExitSuccess;
  }
  if (!o.last_rank_evaluates) return train(o, std::move(description), processes);
  const std::string directory = processes.broadcast_string(o.train_dir);
  processes.split_evaluator_rank();
  const int exit_code =
      processes.is_evaluator() ? evaluate_along(o, directory, processes) : train(o, std::move(description), processes);
  processes.barrier_with_evaluator();
  return exit_code;
}

/// Parses the command line and applies defaults; check_options checks the options later.
ParseResult read_options(int argc, char** argv, OptionSet& options, TrainOptions& o) {
  ParseResult parsed = options.parse(argc, argv);
  apply_dataset_defaults(options, o);
  apply_async_defaults(options, o);
  return parsed;
}

/// Collective: assigns GPUs to this process if several processes train.
void find_gpus(TrainOptions& o, const ProcessGroup& processes) {
  if (o.num_processes == 1) return;
  const GpuUse use = o.exchanges_on_host() ? GpuUse::kShared : GpuUse::kExclusive;
  // Pure servers are the last processes, and need no GPU.
  const int num_serving = o.strategy == TrainStrategy::kParameterServers ? o.num_servers : 0;
  const int num_computing = std::max(1, o.num_processes - num_serving);
  const bool computes = processes.rank() < num_computing;
  ProcessGpus own;
  processes.run_collective([&] { own = own_gpus(processes, computes ? o.device : "cpu", o.num_gpus, o.math, use); });
  const std::vector<ProcessGpus> all = gather_gpus(processes, own);
  processes.run_collective([&] {
    const std::vector<GpuRange> ranges =
        assign_gpus(std::span(all).first(static_cast<std::size_t>(num_computing)), use);
    o.gpus.joins_others = use == GpuUse::kExclusive;
    if (!o.trains) return;
    if (!computes) {
      // Like the other processes, with or without a GPU here.
      o.gpus.ignored = ranges.empty();
      o.gpus.count = 0;
    } else if (!ranges.empty()) {
      o.gpus = ranges[static_cast<std::size_t>(processes.rank())];
    }
  });
}

/// Checks the options with the assigned GPUs, and completes them.
void check_options(const OptionSet& options, TrainOptions& o) {
  check_train_options(options, o);
  apply_async_launch(o);
  if (o.train_dir.empty()) o.train_dir = default_train_dir(o);
}

}  // namespace

int run_train(int argc, char** argv) {
  ProcessGroup processes;
  const auto run = [&]() -> int {
    TrainOptions o;
    OptionSet options(kTrainUsage);
    declare_train_options(options, o);
    ParseResult parsed;
    processes.run_collective([&] { parsed = read_options(argc, argv, options, o); });
    if (answer_questions("terngrad_train", options, parsed, processes)) return kExitSuccess;
    processes.run_collective([&] { check_cluster_environment(processes.rank(), processes.size()); });
    // First, because the collective calls after this depend on the options.
    require_same_on_all_ranks(processes, options.values(), {});
    apply_launch(o, {.rank = processes.rank(),
                     .num_processes = processes.size(),
                     .num_sharing = processes.num_sharing_processors()});
    find_gpus(o, processes);
    processes.run_collective([&] { check_options(options, o); });
    RunDescription description;
    description.command = "terngrad_train";
    description.arguments.assign(argv + 1, argv + argc);
    description.options = options.values();
    description.version = version();
    description.commit = commit();
    return run_rank(o, std::move(description), processes);
  };
  return processes.run("terngrad_train", run, "; continue from the last checkpoint, if there is one, with --resume");
}

}  // namespace terngrad
