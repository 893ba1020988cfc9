#include "trainers/options/train_option_groups.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "kernels/codes/code_sum.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/async_options.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

// Identity values that stand for several values of an option.
const std::string kSynchronousStrategies = "synchronous";
const std::string kAnyExchange = "any but vendor";
constexpr const char* kAnyPull = "any";
constexpr const char* kRoundedParameters = "rounded parameters";

std::optional<std::string> if_async(const TrainOptions& o, const std::string& text) {
  return is_async(o) ? std::optional(text) : std::nullopt;
}

}  // namespace

void declare_worker_options(OptionSet& options, TrainOptions& o) {
  options.group("Workers and exchange");
  options
      .add("num_nodes", &o.num_nodes,
           "workers, emulated or spread over the processes of a launch; divides --batch_size",
           in_range(1, kMaxSummedWorkers))
      .identity({.key = "num_workers"})
      .original("same; default 1");
  add_choice(options, "strategy", &o.strategy,
             "simple: one worker, nothing exchanged; replicated: synchronous all-reduce; ps: "
             "synchronous parameter server; async: parameter server that applies each worker's gradient on arrival")
      .identity({.value = [&o] { return is_async(o) ? word_of(o.strategy) : kSynchronousStrategies; },
                 .shown =
                     [](const std::string& value) {
                       return value == kSynchronousStrategies ? "simple, replicated or ps" : value;
                     },
                 .advice =
                     [](const std::string& recorded) {
                       return recorded == kSynchronousStrategies ? "one of these" : "--strategy " + recorded;
                     }});
  options
      .add("num_servers", &o.num_servers,
           "with --strategy ps: the last N processes of a launch only serve, each its shard of the "
           "parameters; 0: the first process serves, beside its workers",
           at_least(0))
      .role(OptionRole::kSpeed)
      .needs(parameter_servers(o))
      .needs("several processes (mpirun -np N); this one serves its workers", [&o] { return o.num_launched > 1; });
  add_choice(options, "pull", &o.pull,
             "with --strategy ps: gradient: workers get the mean and update their replicas; parameters: servers "
             "update, workers get the parameters (as --downlink_codec says)")
      .identity({.value =
                     [&o] {
                       return std::string(o.pulls_parameters() && o.downlink_codec != DownlinkCodec::kFloat32
                                              ? kRoundedParameters
                                              : kAnyPull);
                     },
                 .shown =
                     [](const std::string& value) {
                       return value == kAnyPull             ? std::string("gradient, or parameters as fp32")
                              : value == kRoundedParameters ? std::string("parameters as bf16")
                                                            : value;
                     },
                 .advice =
                     [](const std::string& recorded) {
                       return std::string(recorded == kAnyPull
                                              ? "--pull gradient, or --downlink_codec fp32"
                                              : "--strategy ps --pull parameters and its --downlink_codec");
                     }})
      .needs(parameter_servers(o));
  options
      .add("async_scale", &o.async_scale,
           "with --strategy async: factor of every gradient that is applied; 0: 1 / --num_nodes",
           also_as_fp32(at_least(0)))
      .identity({.value = [&o] { return if_async(o, fmt::format("{}", async_scale(o))); }})
      .needs(async_strategy(o));
  options
      .add("max_staleness", &o.max_staleness,
           "with --strategy async: a gradient whose parameters have seen more updates since is dropped; -1: none is",
           at_least(-1))
      .identity({.value = [&o] { return if_async(o, std::to_string(o.max_staleness)); }})
      .needs(async_strategy(o));
  add_choice(
      options, "exchange", &o.exchange,
      "how messages travel; the result has the same bits with each. auto: the one that moves the fewest bytes over "
      "a worker's link; it may add codes up on the way, which no --ternary_format shortens. vendor: the baseline, "
      "the all-reduce of MPI, or between GPUs of NCCL, whose sum also depends on processes and --bucket_mb")
      .identity({.value = [&o] { return o.exchange == TrainExchange::kVendor ? word_of(o.exchange) : kAnyExchange; }})
      .needs(exchanging_strategy(o))
      .needs("--num_nodes 2 or more: one worker shares and sends nothing",
             [&o] { return o.num_nodes > 1 || o.strategy == TrainStrategy::kParameterServers; })
      .needs("--strategy replicated or ps: of async workers push to a server, nothing is exchanged between them",
             [&o] { return !is_async(o); });
  options
      .add("workers_per_group", &o.workers_per_group,
           "consecutive workers, as those of one host, whose gradients are averaged as fp32 before their group "
           "exchanges the mean as one worker (hierarchical all-reduce in two levels); divides --num_nodes",
           at_least(1))
      .identity({.value =
                     [&o] {
                       return o.workers_per_group > 1 ? std::optional(std::to_string(o.workers_per_group))
                                                      : std::nullopt;
                     }})
      .needs(
          "--strategy replicated with several workers: simple exchanges nothing, servers take each worker's gradient",
          [&o] { return o.chosen_strategy() == TrainStrategy::kReplicated; })
      .needs(own_exchange(o));
  add_choice(options, "downlink_codec", &o.downlink_codec,
             "what the mean goes through on its way back; sums and sparse change its bytes only, bf16 and ternary its "
             "bits")
      .needs(own_exchange(o))
      .needs(exchanging_strategy(o))
      .needs("--num_nodes 2 or more, or --strategy ps, for sums and sparse: one worker sends nothing", [&o] {
        return (o.downlink_codec != DownlinkCodec::kSums && o.downlink_codec != DownlinkCodec::kSparse) ||
               o.num_nodes > 1 || o.strategy == TrainStrategy::kParameterServers;
      });
  add_choice(options, "reduce", &o.reduce,
             "what the update is given of the workers' gradients: their mean, or their sum")
      .needs(several_workers(o))
      .needs(
          "--strategy replicated or ps: of async gradients are applied one by one; for their sum give --async_scale 1",
          [&o] { return !is_async(o); });
  add_choice(options, "on_nonfinite", &o.on_nonfinite,
             "on NaN or infinity in a gradient or their mean: stop, skip the step, or count it as zero")
      .identity({.is_same = [](const std::string&, const std::string& recorded) { return recorded == "stop"; }});
  add_choice(options, "overlap", &o.overlap,
             "exchange gradients of some tensors while others are still being computed (the result has the same bits); "
             "auto: with several processes or GPUs")
      .role(OptionRole::kSpeed)
      .needs(
          "an exchange beside the backward pass",
          [&o] { return o.overlap != Overlap::kOn || !o.trains || overlap_unsupported_reason(o).empty(); },
          [&o] { return "this needs " + overlap_unsupported_reason(o); });
  options
      .add("bucket_mb", &o.bucket_mb,
           "MiB of fp32 gradient that are exchanged together, a tensor is never cut (it changes bits only with "
           "--exchange vendor); 0: 1, or all where a run has one GPU and --overlap is not on",
           at_least(0))
      .role(OptionRole::kSpeed)
      .needs(
          "an exchange in buckets of tensors", [&o] { return !o.trains || o.splits_gradients(); },
          [&o] { return "this needs " + buckets_unsupported_reason(o); });
  options
      .add("exchange_timeout", &o.exchange_timeout,
           "seconds after which a process or GPU that others wait for has failed; longer than a step or a save takes, "
           "and on GPUs than two steps",
           at_least(0.1))
      .role(OptionRole::kReport)
      .needs(several_replicas(o));
  options
      .add_flag("last_rank_evaluates", &o.last_rank_evaluates,
                "of several processes the last one trains no workers, but evaluates each checkpoint; it must see "
                "--train_dir and the data")
      .role(OptionRole::kReport)
      .needs(several_processes(o));
  options
      .add(
          "check_replicas", &o.check_replicas,
          "steps per comparison of all processes' and GPUs' replicas by checksums; a difference stops the run; 0: none",
          at_least(0))
      .role(OptionRole::kReport)
      .needs(pulled_gradients(o))
      .needs(synchronous_strategy(o))
      .needs(several_replicas(o));
  options
      .add("rebroadcast_epochs", &o.rebroadcast_epochs,
           "epochs after which all processes take over the first one's replica; 0: never", in_range(0, 1000000))
      .role(OptionRole::kSpeed)
      .needs(pulled_gradients(o))
      .needs(synchronous_strategy(o))
      .needs(several_processes(o));
}

}  // namespace terngrad
