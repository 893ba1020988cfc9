#include "trainers/commands/advise_options.h"

#include <algorithm>

#include "compress/transport/grouped_peers.h"
#include "datasets/sets/constant_images.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "nets/net_plan.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/compared_codec_options.h"

namespace terngrad {
namespace {

std::vector<std::string> with_none(std::vector<std::string> names) {
  names.insert(names.begin(), "");
  return names;
}

void check_alone(const AdviseOptions& o) {
  if (o.num_nodes < 2) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", o.num_nodes,
                   ": one worker exchanges nothing; accepted without a launch (mpirun -np N): 2 or more");
  }
  if (o.bandwidth_mbit == 0) {
    throw UsageError(
        "--bandwidth_mbit 0: a process alone has no link to measure; say how fast it would be, above 0, or start "
        "several "
        "processes (mpirun -np N)");
  }
}

void check_batch(const AdviseOptions& o) {
  if (o.compute_ms < 0 && o.compute_ms != -1) {
    TERNGRAD_THROW(UsageError, "--compute_ms ", o.compute_ms, ": accepted: 0 or more; -1: measured on CPUs");
  }
  if (o.batch_size % o.num_nodes == 0) return;
  TERNGRAD_THROW(UsageError, "--batch_size ", o.batch_size, ": must divide evenly over --num_nodes ", o.num_nodes,
                 " (each worker takes the same number of examples)");
}

/// Resolves --workers_per_group 0.
void check_groups(AdviseOptions& o, std::span<const std::string> host_of_rank) {
  if (o.workers_per_group == 0) o.workers_per_group = workers_per_host(o.num_nodes, host_of_rank);
  const int num_processes = static_cast<int>(host_of_rank.size());
  std::string reason = groups_unsupported_reason(o.num_nodes, o.workers_per_group, num_processes);
  if (reason.empty() && o.workers_per_group > 1 && o.num_nodes / o.workers_per_group > num_processes) {
    reason = "some of the " + std::to_string(num_processes) + " processes would have several groups";
  }
  if (reason.empty()) return;
  TERNGRAD_THROW(UsageError, "--workers_per_group ", o.workers_per_group, ": ", reason);
}

}  // namespace

void declare_advise_options(OptionSet& options, AdviseOptions& o) {
  options.group("What is exchanged");
  options.add("layout", &o.layout, "a well-known model's tensors, in place of a net's", one_of(with_none(net_names())));
  options
      .add("dataset", &o.dataset, "data set whose images and classes the net is for; its files are not read",
           one_of(constant_image_sets()))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); });
  options.add("net", &o.net, "network; empty: the data set's", one_of(with_none(net_names())))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); });
  options.add("image_size", &o.image_size, "height and width of the net's input; 0: the data set's", in_range(0, 1024))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); });
  options.add("channels", &o.channels, "channels of its images; 0: the data set's", in_range(0, 1024))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); });
  options.add("num_classes", &o.num_classes, "classes; 0: the data set's", in_range(0, 1 << 20))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); });
  options.add_flag("quantize_logits", &o.quantize_logits,
                   "compress the logits' weights and biases too, else they travel as fp32");
  options.add(
      "codec", &o.codecs,
      "codec to compare with fp32 and bf16, by a spec (--list_codecs), repeatable; t2 and t5 are ternary in 2 and "
      "1.6 bits");
  declare_codec_list(options);
  options
      .add("clip_factor", &o.clip_factor,
           "ternary whose spec names no clip_factor: clip at this many standard deviations; 0: no clipping",
           at_least(0))
      .needs("a codec that is ternary", [&o] { return std::ranges::any_of(o.codecs, is_compared_ternary); });
  options.group("Between whom");
  options.add("num_nodes", &o.num_nodes,
              "workers, spread over the processes of the launch (0: one for each); without a launch each is taken to "
              "have a machine like this one",
              in_range(0, kMaxSummedWorkers));
  options
      .add("workers_per_group", &o.workers_per_group,
           "also measure exchanges in two levels, of groups of this many workers, each with a process of its own or "
           "several; 1: none; 0: groups are the workers of a host, if hosts have equally many",
           at_least(0))
      .needs("several processes (mpirun -np N)", [&o] { return o.num_launched > 1; });
  options
      .add("batch_size", &o.batch_size,
           "examples of a step, all workers together; 0: the data set's, in whole examples for each worker",
           in_range(0, 1 << 20))
      .needs("a net: --layout is a whole model's, of which nothing is computed", [&o] { return o.layout.empty(); })
      .needs("--compute_ms -1, which measures what a step computes", [&o] { return o.compute_ms < 0; });
  options.add(
      "compute_ms", &o.compute_ms,
      "milliseconds that a step computes beside its exchange, for GPUs say, which are not measured; 0: exchanges "
      "alone decide; -1: a net's are measured, on CPUs",
      at_least(-1));
  options
      .add("bandwidth_mbit", &o.bandwidth_mbit,
           "without a launch: megabits (10^6) per second that a process sends, and receives at the same time",
           at_least(0))
      .needs("one process: the link between those of a launch is measured", [&o] { return o.num_launched == 1; });
  options
      .add("latency_us", &o.latency_us, "without a launch: microseconds that a round of messages takes at least",
           at_least(0))
      .needs("one process: the link between those of a launch is measured", [&o] { return o.num_launched == 1; });
  options.group("Measuring");
  options.add(
      "repetitions", &o.repetitions,
      "times that each exchange is measured; the median counts. At most: of the MPI library's no more than take "
      "10 s, and two of an exchange that takes half as long again as another",
      in_range(1, 1000000));
  options.add("threads", &o.threads, "threads of this process; 0: all of the machine", at_least(0))
      .role(OptionRole::kPlace);
  options
      .add("exchange_timeout", &o.exchange_timeout, "seconds after which a process that others wait for has failed",
           greater_than(0))
      .needs("several processes (mpirun -np N)", [&o] { return o.num_launched > 1; });
  options.add("json", &o.json, "file to write all numbers to");
}

void check_advise_options(const OptionSet& options, AdviseOptions& o, std::span<const std::string> host_of_rank) {
  const int num_processes = static_cast<int>(host_of_rank.size());
  o.num_launched = num_processes;
  check_compared_codecs(options, o.codecs, o.clip_factor, {});
  options.require_needs();
  if (num_processes == 1) {
    check_alone(o);
    check_batch(o);
    return;
  }
  if (o.num_nodes == 0) o.num_nodes = num_processes;
  if (o.num_nodes < num_processes) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", o.num_nodes, ": each of the ", num_processes,
                   " processes needs a worker; accepted: 0, ", num_processes, " or more");
  }
  check_groups(o, host_of_rank);
  check_batch(o);
}

}  // namespace terngrad
