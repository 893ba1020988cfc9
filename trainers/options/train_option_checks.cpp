#include "trainers/options/train_option_checks.h"

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/loop/message_dump.h"
#include "trainers/loop/trace.h"
#include "trainers/options/async_options.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/device_choice.h"
#include "trainers/options/option_set.h"
#include "trainers/options/step_list.h"

namespace terngrad {
namespace {

int num_processes_with_workers(const TrainOptions& o) {
  if (o.num_processes == 1) return 1;
  return o.num_processes - (is_async(o) ? 1 : o.num_servers);
}

/// Options of one kind of device.
void check_devices(const OptionSet& options, const TrainOptions& o) {
  if (devices_of(o).is_cpu_run()) {
    refuse_unused(options, {"num_gpus", "math"}, "a GPU (--device cuda)");
    return;
  }
  refuse_unused(options, {"threads_per_worker"}, "--device cpu");
  if (o.profile && !o.exchanges_on_host()) {
    throw UsageError(
        "--profile: the parts of a step are not timed on GPUs, where a step is one launch; it needs --device cpu");
  }
  if (o.trace_steps > 0 && !o.exchanges_on_host()) {
    throw UsageError(
        "--trace_steps: a step on a GPU is one launch, whose parts its own tools show; it needs --device cpu");
  }
  const int num_working = num_processes_with_workers(o);
  if (o.gpus.count > o.num_nodes / num_working) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", o.gpus.count, ": each GPU ",
                   num_working == 1 ? "" : "of the " + std::to_string(num_working) + " processes ",
                   "needs a worker, --num_nodes is ", o.num_nodes, "; accepted: 1 to ", o.num_nodes / num_working);
  }
}

/// What --memory has no numbers of.
void check_memory_question(const TrainOptions& o) {
  if (!o.memory) return;
  if (!devices_of(o).is_cpu_run()) {
    throw UsageError(
        "--memory: counts host memory, of GPUs the libraries that compute decide about most; it needs --device cpu");
  }
  if (o.last_rank_evaluates) {
    throw UsageError(
        "--memory: counts processes that train; give it without --last_rank_evaluates, to one process less");
  }
}

/// How work is divided over threads and workers.
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

/// Where examples come from.
void check_data(const OptionSet& options, const TrainOptions& o) {
  if (o.benchmark_mode) {
    refuse_unused(options, {"data_dir", "data_shards", "preprocessing", "eval_steps", "eval_at"},
                  "a run without --benchmark_mode, which reads no data");
  } else if (is_built_in(o.dataset)) {
    refuse_unused(options, {"data_dir", "data_shards"}, "a data set with files; " + o.dataset + " is built in");
  } else if (o.data_dir.empty()) {
    TERNGRAD_THROW(UsageError, "--data_dir: must name the folder with the files of --dataset ", o.dataset);
  }
  if (o.benchmark_mode || !is_of_records(o.dataset)) {
    const char* needed = "--dataset imagenet, flowers or records";
    refuse_unused(options, {"label_offset"}, needed);
    if (o.shuffle == "window") TERNGRAD_THROW(UsageError, "--shuffle window: needs ", needed, ", which are in shards");
  }
  if (o.augment == "off" && (o.benchmark_mode || !can_augment(o.dataset))) {
    TERNGRAD_THROW(UsageError, "--augment off: has no effect here; --dataset ", o.dataset,
                   o.benchmark_mode ? " is not read" : " is never augmented");
  }
  if (o.shuffle != "window") refuse_unused(options, {"num_readers", "input_queue_memory_factor"}, "--shuffle window");
}

/// Options that not every schedule has.
void check_schedule(const OptionSet& options, const TrainOptions& o) {
  const std::string& type = o.learning_rate_decay_type;
  if (type != "exponential") {
    refuse_unused(options, {"num_epochs_per_decay"}, "--learning_rate_decay_type exponential");
  }
  if (type != "exponential" && type != "steps") {
    refuse_unused(options, {"learning_rate_decay_factor"}, "--learning_rate_decay_type exponential or steps");
  }
  if (type != "steps") {
    refuse_unused(options, {"learning_rate_boundaries"}, "--learning_rate_decay_type steps");
  } else if (o.learning_rate_boundaries.empty()) {
    throw UsageError(
        "--learning_rate_boundaries: must name the steps at which --learning_rate_decay_type steps multiplies the rate "
        "by --learning_rate_decay_factor, such as 1000,2000");
  }
}

/// Options that not every optimizer or net has.
void check_optimization(const OptionSet& options, const TrainOptions& o) {
  if (o.optimizer != "momentum" && o.optimizer != "rmsprop") {
    refuse_unused(options, {"momentum"}, "--optimizer momentum or rmsprop");
  }
  if (!has_dropout(net_spec(o.net))) {
    refuse_unused(options, {"dropout_keep_prob"}, "a net with dropout; " + o.net + " has none");
  }
}

void check_trace(const TrainOptions& o) {
  if (o.trace_steps > 0 && o.max_steps <= static_cast<std::int64_t>(Trace::kWarmUpSteps)) {
    TERNGRAD_THROW(UsageError, "--trace_steps ", o.trace_steps, ": begins after ", Trace::kWarmUpSteps,
                   " steps, --max_steps is ", o.max_steps, "; accepted with it: --max_steps ", Trace::kWarmUpSteps + 1,
                   " or more");
  }
}

/// Steps that are named, or looked at, must be steps of the run.
void check_steps(const TrainOptions& o) {
  const std::vector<std::int64_t> evaluated = parse_step_list(o.eval_at);
  if (!evaluated.empty() && evaluated.back() > o.max_steps) {
    TERNGRAD_THROW(UsageError, "--eval_at ", o.eval_at, ": has step ", evaluated.back(), ", --max_steps is ",
                   o.max_steps, "; accepted: steps up to it");
  }
  if (o.dump_gradients > o.max_steps) {
    TERNGRAD_THROW(UsageError, "--dump_gradients ", o.dump_gradients, ": never comes, --max_steps is ", o.max_steps,
                   "; accepted: 0 (none) to ", o.max_steps);
  }
  if (o.max_steps > 0) return;
  if (!o.dump_messages.empty()) {
    TERNGRAD_THROW(UsageError, "--dump_messages ", o.dump_messages, ": needs steps, --max_steps is 0");
  }
  if (o.profile) throw UsageError("--profile: needs steps, --max_steps is 0");
}

/// What a run begins with.
void check_start(const OptionSet& options, const TrainOptions& o) {
  if (o.resume && o.train_dir.empty()) TERNGRAD_THROW(UsageError, "--resume: needs --train_dir, the run to resume");
  if (o.resume) refuse_unused(options, {"init_from"}, "a new run; --resume continues from the run's own checkpoint");
  if (o.init_from.empty()) refuse_unused(options, {"fine_tune"}, "--init_from");
}

/// Options of one worker that exchanges nothing.
void check_simple(const OptionSet& options, const TrainOptions& o) {
  if (o.strategy_name() != "simple") return;
  if (o.num_nodes != 1) {
    TERNGRAD_THROW(UsageError, "--strategy simple: is for one worker, --num_nodes is ", o.num_nodes,
                   "; accepted: auto, replicated, ps, async");
  }
  if (o.codec_name() != "fp32" || !o.codec_for.empty()) {
    TERNGRAD_THROW(UsageError, "--strategy simple: exchanges nothing, so a codec (", o.codec_name(),
                   ") would do nothing; accepted: auto, replicated, ps, async");
  }
  refuse_unused(options, {"exchange", "downlink_codec"}, "--strategy replicated or ps");
}

/// Options of parameter servers.
void check_servers(const OptionSet& options, const TrainOptions& o) {
  if (o.strategy_name() != "ps") {
    refuse_unused(options, {"num_servers", "pull"}, "--strategy ps");
    return;
  }
  if (o.exchange != "auto" && o.exchange != "scatter_reduce") {
    TERNGRAD_THROW(UsageError, "--exchange ", o.exchange,
                   ": with --strategy ps servers aggregate shards of the gradient; accepted: auto, scatter_reduce");
  }
  if (!o.pulls_parameters()) return;
  if (o.downlink_codec != "fp32" && o.downlink_codec != "bf16") {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", o.downlink_codec,
                   ": is of gradients, --pull parameters sends parameters; accepted with it: fp32, bf16");
  }
  refuse_unused(options, {"check_replicas", "rebroadcast_epochs"},
                "--pull gradient; with parameters the replicas take over the servers' in every step");
}

/// Options of the exchange in buckets.
void check_buckets_and_overlap(const OptionSet& options, const TrainOptions& o) {
  const std::string buckets_need = buckets_unsupported_reason(o);
  if (!buckets_need.empty()) refuse_unused(options, {"bucket_mb"}, buckets_need);
  const std::string needs = overlap_unsupported_reason(o);
  if (o.overlap == "on" && !needs.empty()) {
    TERNGRAD_THROW(UsageError, "--overlap on: needs ", needs, "; accepted here: auto, off");
  }
}

/// What --dump_messages needs and does not have here: exchanges that send messages.
std::string dump_unsupported_reason(const TrainOptions& o) {
  if (is_async(o)) return "--strategy replicated or ps; pushes to an asynchronous server are not dumped";
  if (o.strategy_name() == "simple") return "--num_nodes 2 or more, or --strategy replicated; one worker sends nothing";
  if (o.exchange == "vendor") return "an --exchange other than vendor, which adds numbers and sends no messages";
  if (o.exchange == "integer_sum") {
    return "--exchange all_gather or scatter_reduce; integer_sum adds codes on their way, without messages";
  }
  if (!o.trains || devices_of(o).is_cpu_run() || o.exchanges_on_host()) return "";
  return "--device cpu, or --pull parameters; GPUs send each other payloads without messages around them";
}

void check_dump(const OptionSet& options, const TrainOptions& o) {
  if (o.dump_messages.empty()) {
    refuse_unused(options, {"dump_messages", "dump_steps"}, "--dump_messages with the name of a folder");
    return;
  }
  const std::string needs = dump_unsupported_reason(o);
  if (!needs.empty()) TERNGRAD_THROW(UsageError, "--dump_messages ", o.dump_messages, ": needs ", needs);
  check_dump_folder(o.dump_messages);
}

}  // namespace

void check_train_options(const OptionSet& options, const TrainOptions& o) {
  check_codec_options(options, o);  // first: others ask for the codecs
  if (o.trains) check_devices(options, o);
  check_memory_question(o);
  check_shares_of_work(o);
  check_data(options, o);
  check_schedule(options, o);
  check_optimization(options, o);
  check_steps(o);
  check_trace(o);
  check_dump(options, o);
  check_start(options, o);
  check_simple(options, o);
  check_servers(options, o);
  check_async_options(options, o);
  if (o.trains) check_buckets_and_overlap(options, o);
  check_compression_options(options, o);
}

void check_launch(const OptionSet& options, const TrainOptions& o, int num_processes) {
  if (num_processes == 1) {
    refuse_unused(options, {"rebroadcast_epochs", "last_rank_evaluates", "data_shards"},
                  "several processes (mpirun -np N)");
    if (o.num_gpus <= 1 || o.exchanges_on_host()) {
      refuse_unused(options, {"check_replicas", "exchange_timeout"},
                    "several processes (mpirun -np N), or several GPUs (--num_gpus M) that exchange gradients");
    }
    if (o.num_servers > 0 && o.strategy == "ps") {
      TERNGRAD_THROW(UsageError, "--num_servers ", o.num_servers,
                     ": needs several processes (mpirun -np N); accepted here: 0, this process serves its workers");
    }
    return;
  }
  if (o.last_rank_evaluates) {
    refuse_unused(options, {"eval_steps", "eval_at", "benchmark_mode"},
                  "a run that evaluates itself, without --last_rank_evaluates (which evaluates each checkpoint, see "
                  "--save_iter)");
    --num_processes;
  }
  if (o.strategy != "ps") refuse_unused(options, {"num_servers"}, "--strategy ps");
  if (o.num_servers >= num_processes) {
    TERNGRAD_THROW(UsageError, "--num_servers ", o.num_servers, ": of ", num_processes,
                   " processes at least one must have workers; accepted: 0 to ", num_processes - 1);
  }
  // Of those that are not alone, the first one of --strategy async only serves.
  num_processes -= is_async(o) && num_processes > 1 ? 1 : o.num_servers;
  if (o.num_nodes < num_processes) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", o.num_nodes, ": each of the ", num_processes,
                   " training processes needs a worker; accepted: ", num_processes, " or more");
  }
}

}  // namespace terngrad
