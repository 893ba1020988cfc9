#include "trainers/commands/advise_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/cost/compared_codecs.h"
#include "compress/cost/exchange_probe.h"
#include "compress/cost/sample_gradient.h"
#include "compress/cost/vendor_probe.h"
#include "compress/exchange/vendor_codecs.h"
#include "datasets/sets/constant_images.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "nets/net_plan.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/advice.h"
#include "trainers/commands/advised_model.h"
#include "trainers/commands/compute_benchmark.h"
#include "trainers/commands/launched_command.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/process_group.h"
#include "trainers/launch/progress.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/compared_codec_options.h"

namespace terngrad {
namespace {

/// An exchange that is slower than the fastest one before it by this factor is measured less often.
constexpr double kClearlySlower = 1.5;

constexpr const char* kAdviseUsage =
    "terngrad_advise: says which codec pays between the processes of this launch, or on a link that is given.\n"
    "Example: mpirun -np 4 terngrad_advise --layout alexnet --quantize_logits\n"
    "         terngrad_advise --net lenet --num_nodes 8 --bandwidth_mbit 100";

struct AdviseOptions : AdvisedModelOptions {
  int num_nodes = 0;
  double compute_ms = -1;
  double bandwidth_mbit = 0;
  double latency_us = 50;
  std::vector<std::string> codecs = {"t2", "t5"};  // in addition to the baselines
  bool quantize_logits = false;
  double clip_factor = 2.5;
  int repetitions = 5;
  int threads = 0;
  double exchange_timeout = 600;
  std::string json;
  int num_launched = 1;  // number of launched processes
};

std::vector<std::string> with_none(std::vector<std::string> names) {
  names.insert(names.begin(), "");
  return names;
}

void declare(OptionSet& options, AdviseOptions& o) {
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

void check(const OptionSet& options, AdviseOptions& o, int num_processes) {
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
  check_batch(o);
}

/// Compute time of a step: --compute_ms if given, else for a net the time of the slowest process for its workers,
/// measured on all processes at the same time.
AdviceCompute compute_of(const AdviseOptions& o, const AdvisedModel& model, const ExchangeWorld& world,
                         const ProcessGroup& processes) {
  if (o.compute_ms >= 0) return {.seconds = 1e-3 * o.compute_ms};
  if (model.batch_size == 0) return {};
  NetOptions net;
  net.examples_per_worker = static_cast<int>(std::max<std::int64_t>(1, model.batch_size / world.num_workers));
  net.num_local_workers = worker_range(world.num_workers, processes.rank(), world.num_processes).num_local_workers;
  net.num_threads = threads_of_process(o.threads, processes);
  net.threads_per_worker = net.num_local_workers == 1 ? net.num_threads : 1;
  double seconds = 0;
  processes.communicator()->barrier();
  processes.run_collective(
      [&] { seconds = probe_compute(*make_net(model.spec, model.shape, model.num_classes, net), net, o.repetitions); });
  seconds = max_over_ranks(*processes.communicator(), std::array{seconds})[0];
  return {.measured_batch = std::int64_t{net.examples_per_worker} * world.num_workers, .seconds = seconds};
}

/// Seconds above which an exchange is clearly slower than the fastest of `costs`.
double clearly_slower(const std::vector<ExchangeCost>& costs, const LinkModel& link) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const ExchangeCost& cost : costs) fastest = std::min(fastest, cost.seconds(link));
  return kClearlySlower * fastest;
}

/// The baselines and the codecs of --codec.
std::vector<std::string> measured_codecs(const AdviseOptions& o) {
  std::vector<std::string> codecs = {"fp32", "bf16"};
  for (const std::string& codec : o.codecs) {
    if (std::ranges::find(codecs, codec) == codecs.end()) codecs.push_back(codec);
  }
  return codecs;
}

/// Measures the project's own exchanges, and with several processes those of the transport library.
std::vector<ExchangeCost> measure_exchanges(const AdviseOptions& o, const Layout& layout, const ExchangeWorld& world,
                                            const LinkModel& link, const ProcessGroup& processes,
                                            ProgressDisplay& display) {
  const int num_threads = threads_of_process(o.threads, processes);
  Buffer<float> gradient;
  processes.run_collective([&] {
    gradient = Buffer<float>(layout.flat_elements());
    fill_sample_gradient(gradient.span(), 1, num_threads);
  });
  std::vector<ExchangeCost> costs;
  const std::vector<std::string> codecs = measured_codecs(o);
  const std::size_t num_rows = codecs.size() + (processes.is_alone() ? 0 : vendor_codec_names().size());
  const auto show_next = [&](const std::string& codec, const std::string& exchange) {
    display.message(fmt::format("measuring {} by {} ({} of {})", codec, exchange, costs.size() + 1, num_rows));
  };
  for (const std::string& codec : codecs) {
    ProbeOptions options{
        .codec = codec,
        .exchange = compared_codec(codec, {.clip_factor = o.clip_factor, .quantize_logits = o.quantize_logits}),
        .world = world,
        .repetitions = o.repetitions,
        .beaten_seconds = clearly_slower(costs, link),
        .link = link};
    options.exchange.num_threads = num_threads;
    options.exchange.algorithm = algorithm_in_use(layout, world.num_workers, options.exchange);
    show_next(codec, to_string(options.exchange.algorithm));
    costs.push_back(probe_on_all_ranks(*processes.communicator(), layout, gradient.span(), options));
  }
  if (processes.is_alone()) return costs;
  for (const std::string& codec : vendor_codec_names()) {
    show_next(codec, kVendorExchange);
    costs.push_back(probe_vendor(processes.communicator(), layout, gradient.span(), link,
                                 {.codec = codec,
                                  .num_workers = world.num_workers,
                                  .num_threads = num_threads,
                                  .repetitions = o.repetitions,
                                  .beaten_seconds = clearly_slower(costs, link)}));
  }
  return costs;
}

int run(const AdviseOptions& o, ProcessGroup& processes) {
  processes.set_timeout(o.exchange_timeout);
  AdvisedModel model;
  processes.run_collective([&] { model = make_advised_model(o); });
  AdviceSubject subject{.name = model.name,
                        .num_elements = model.layout.num_elements(),
                        .num_tensors = model.layout.num_segments(),
                        .world = {o.num_nodes, processes.is_alone() ? o.num_nodes : processes.size()},
                        .link = {1e-6 * o.latency_us, 1e6 / 8 * o.bandwidth_mbit},
                        .samples = {},
                        .clip_factor = o.clip_factor,
                        .quantize_logits = o.quantize_logits};
  ProgressDisplay display(stderr, processes.is_chief() ? ProgressDisplay::Mode::kLog : ProgressDisplay::Mode::kSilent);
  if (!processes.is_alone()) {
    display.message(fmt::format("measuring the link between {} processes", processes.size()));
    subject.samples = measure_link(*processes.communicator());
    subject.link = fit_link(subject.samples);
  }
  if (o.compute_ms < 0 && model.batch_size != 0) display.message("measuring what a step computes");
  subject.compute = compute_of(o, model, subject.world, processes);
  const std::vector<ExchangeCost> costs =
      measure_exchanges(o, model.layout, subject.world, subject.link, processes, display);
  processes.run_collective([&] {
    if (!processes.is_chief()) return;
    const Advice advice = make_advice(std::move(subject), costs);
    std::cout << to_text(advice);
    if (!o.json.empty()) write_file_atomically(o.json, to_json(advice).dump(2) + "\n");
  });
  return EXIT_SUCCESS;
}

}  // namespace

int run_advise(int argc, char** argv) {
  AdviseOptions o;
  OptionSet options(kAdviseUsage);
  declare(options, o);
  return run_launched_command("terngrad_advise", options, argc, argv,
                              {.check =
                                   [&](const ProcessGroup& processes) {
                                     check(options, o, processes.size());
                                     check_output_file("json", o.json, processes);
                                   },
                               .run = [&](ProcessGroup& processes) { return run(o, processes); }});
}

}  // namespace terngrad
