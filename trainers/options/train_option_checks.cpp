#include "trainers/options/train_option_checks.h"

#include <cstdint>
#include <string>
#include <vector>

#include "compress/transport/grouped_peers.h"
#include "datasets/dataset.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_set.h"
#include "trainers/command_line/step_list.h"
#include "trainers/loop/message_dump.h"
#include "trainers/options/async_options.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/train_conditions.h"

namespace terngrad {
namespace {

int num_processes_with_workers(const TrainOptions& o) {
  if (o.num_processes == 1) return 1;
  return o.num_processes - (is_async(o) ? 1 : o.num_servers);
}

/// Checks the number of GPUs against the number of workers.
void check_devices(const TrainOptions& o) {
  if (!o.trains || computes_on_cpu(o)) return;
  const int num_working = num_processes_with_workers(o);
  if (o.gpus.count > o.num_nodes / num_working) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", o.gpus.count, ": each GPU ",
                   num_working == 1 ? "" : "of the " + std::to_string(num_working) + " processes ",
                   "needs a worker, --num_nodes is ", o.num_nodes, "; accepted: 1 to ", o.num_nodes / num_working);
  }
}

/// Checks the division of work over threads and workers.
void check_shares_of_work(const TrainOptions& o) {
  const int threads = o.threads == 0 ? num_hardware_threads() : o.threads;
  if (o.threads_per_worker > threads) {
    TERNGRAD_THROW(UsageError, "--threads_per_worker ", o.threads_per_worker, ": must be at most --threads, ", threads,
                   o.threads == 0 ? " (all of this machine)" : "");
  }
  if (o.batch_size % o.num_nodes != 0) {
    TERNGRAD_THROW(UsageError, "--batch_size ", o.batch_size, ": must divide evenly over --num_nodes ", o.num_nodes,
                   " (each worker takes the same number of examples)");
  }
}

/// Checks options that the chosen data set or schedule requires.
void check_required(const TrainOptions& o) {
  if (o.data_dir.empty() && !o.benchmark_mode && !is_built_in(o.dataset)) {
    TERNGRAD_THROW(UsageError, "--data_dir: must name the folder with the files of --dataset ", o.dataset);
  }
  if (o.learning_rate_boundaries.empty() && o.learning_rate_decay_type == ScheduleKind::kSteps) {
    throw UsageError(
        "--learning_rate_boundaries: must name the steps at which --learning_rate_decay_type steps multiplies the rate "
        "by --learning_rate_decay_factor, such as 1000,2000");
  }
}

/// Checks that listed steps are steps of the run.
void check_steps(const TrainOptions& o) {
  const std::vector<std::int64_t> evaluated = parse_step_list(o.eval_at);
  if (!evaluated.empty() && evaluated.back() > o.max_steps) {
    TERNGRAD_THROW(UsageError, "--eval_at ", o.eval_at, ": has step ", evaluated.back(), ", --max_steps is ",
                   o.max_steps, "; accepted: steps up to it");
  }
}

/// Checks options of --strategy simple: one worker without exchange.
void check_simple(const TrainOptions& o) {
  if (o.chosen_strategy() != TrainStrategy::kSimple) return;
  if (o.num_nodes != 1) {
    TERNGRAD_THROW(UsageError, "--strategy simple: is for one worker, --num_nodes is ", o.num_nodes,
                   "; accepted: auto, replicated, ps, async");
  }
  if (o.codec_name() != "fp32" || !o.codec_for.empty()) {
    TERNGRAD_THROW(UsageError, "--strategy simple: exchanges nothing, so a codec (", o.codec_name(),
                   ") would do nothing; accepted: auto, replicated, ps, async");
  }
}

/// Checks the number of processes and their tasks.
void check_launch(const TrainOptions& o) {
  if (o.num_launched == 1) return;
  if (o.num_servers >= o.num_processes) {
    TERNGRAD_THROW(UsageError, "--num_servers ", o.num_servers, ": of ", o.num_processes,
                   " processes at least one must have workers; accepted: 0 to ", o.num_processes - 1);
  }
  const int num_working = num_processes_with_workers(o);
  if (o.num_nodes < num_working) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", o.num_nodes, ": each of the ", num_working,
                   " training processes needs a worker; accepted: ", num_working, " or more");
  }
}

/// Checks that the processes and GPUs can share groups of workers.
void check_groups(const TrainOptions& o) {
  if (o.workers_per_group == 1 || !o.trains) return;
  const int gpus = computes_on_cpu(o) ? 1 : o.gpus.count;
  const std::string reason = groups_unsupported_reason(o.num_nodes, o.workers_per_group, o.num_processes * gpus);
  if (!reason.empty()) TERNGRAD_THROW(UsageError, "--workers_per_group ", o.workers_per_group, ": ", reason);
}

}  // namespace

void check_train_options(const OptionSet& options, const TrainOptions& o) {
  check_codec_options(options, o);  // first, as other checks use the codecs
  options.require_needs();
  check_launch(o);
  check_devices(o);
  check_groups(o);
  check_shares_of_work(o);
  check_required(o);
  check_steps(o);
  if (!o.dump_messages.empty()) check_dump_folder(o.dump_messages);
  check_simple(o);
  check_async_options(o);
  check_compression_options(options, o);
}

}  // namespace terngrad
