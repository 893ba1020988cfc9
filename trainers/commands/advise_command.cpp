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
#include "compress/cost/link_probe.h"
#include "compress/cost/sample_gradient.h"
#include "compress/exchange/vendor_codecs.h"
#include "kernels/runtime/buffer.h"
#include "nets/net.h"
#include "nets/net_plan.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/advice.h"
#include "trainers/commands/advise_options.h"
#include "trainers/commands/compute_benchmark.h"
#include "trainers/commands/launched_command.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/process_group.h"
#include "trainers/launch/progress.h"

namespace terngrad {
namespace {

/// An exchange that is slower than the fastest one before it by this factor is measured less often.
constexpr double kClearlySlower = 1.5;

constexpr const char* kAdviseUsage =
    "terngrad_advise: says which codec pays between the processes of this launch, or on a link that is given.\n"
    "Example: mpirun -np 4 terngrad_advise --layout alexnet --quantize_logits\n"
    "         terngrad_advise --net lenet --num_nodes 8 --bandwidth_mbit 100";

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

/// Measures exchanges of one gradient between the processes of a launch, or in a process alone.
class Measurement {
 public:
  Measurement(const AdviseOptions& o, const Layout& layout, const ExchangeWorld& world, const LinkModel& link,
              const ProcessGroup& processes, ProgressDisplay& display)
      : o_(o), layout_(layout), world_(world), link_(link), processes_(processes), display_(display) {
    processes.run_collective([&] {
      gradient_ = Buffer<float>(layout.flat_elements());
      fill_sample_gradient(gradient_.span(), 1, threads_of_process(o.threads, processes));
    });
    num_rows_ = codecs_.size();
    if (has_groups()) num_rows_ += codecs_.size();
    if (!processes.is_alone()) num_rows_ += vendor_codec_names().size();
  }

  /// Those of the project, whose link is modelled; in a launch also those in groups and those of the MPI library.
  std::vector<ExchangeCost> run() {
    for (const std::string& codec : codecs_) add_modelled(codec);
    if (processes_.is_alone()) return costs_;
    if (has_groups()) {
      const int num_groups = world_.num_workers / o_.workers_per_group;
      for (const std::string& codec : codecs_) {
        add_timed(
            {.codec = codec, .exchange = exchange_of(codec, num_groups), .workers_per_group = o_.workers_per_group});
      }
    }
    for (const std::string& codec : vendor_codec_names()) {
      CompressedAllReduceOptions vendor;
      vendor.vendor_type = vendor_element_type(codec);
      vendor.num_threads = threads_of_process(o_.threads, processes_);
      add_timed({.codec = codec, .exchange = vendor});
    }
    return costs_;
  }

 private:
  bool has_groups() const { return !processes_.is_alone() && o_.workers_per_group > 1; }

  CompressedAllReduceOptions exchange_of(const std::string& codec, int num_workers) const {
    CompressedAllReduceOptions exchange =
        compared_codec(codec, {.clip_factor = o_.clip_factor, .quantize_logits = o_.quantize_logits});
    exchange.num_threads = threads_of_process(o_.threads, processes_);
    exchange.algorithm = algorithm_in_use(layout_, num_workers, exchange);
    return exchange;
  }

  void show_next(const std::string& codec, const std::string& exchange) {
    display_.message(fmt::format("measuring {} by {} ({} of {})", codec, exchange, costs_.size() + 1, num_rows_));
  }

  void add_modelled(const std::string& codec) {
    const ProbeOptions options{.codec = codec,
                               .exchange = exchange_of(codec, world_.num_workers),
                               .world = world_,
                               .repetitions = o_.repetitions,
                               .beaten_seconds = clearly_slower(costs_, link_),
                               .link = link_};
    show_next(codec, word_of(options.exchange.algorithm));
    costs_.push_back(probe_on_all_ranks(*processes_.communicator(), layout_, gradient_.span(), options));
  }

  void add_timed(LinkProbeOptions options) {
    options.num_workers = world_.num_workers;
    options.repetitions = o_.repetitions;
    options.beaten_seconds = clearly_slower(costs_, link_);
    show_next(options.codec, options.exchange.vendor_type ? kVendorExchange : groups_text(o_.workers_per_group));
    costs_.push_back(probe_link(processes_.communicator(), layout_, gradient_.span(), link_, options));
  }

  const AdviseOptions& o_;
  const Layout& layout_;
  ExchangeWorld world_;
  LinkModel link_;
  const ProcessGroup& processes_;
  ProgressDisplay& display_;
  std::vector<std::string> codecs_ = measured_codecs(o_);
  Buffer<float> gradient_;
  std::size_t num_rows_ = 0;
  std::vector<ExchangeCost> costs_;
};

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
      Measurement(o, model.layout, subject.world, subject.link, processes, display).run();
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
  declare_advise_options(options, o);
  return run_launched_command("terngrad_advise", options, argc, argv,
                              {.check =
                                   [&](const ProcessGroup& processes) {
                                     check_advise_options(options, o, processes.hosts());
                                     check_output_file("json", o.json, processes);
                                   },
                               .run = [&](ProcessGroup& processes) { return run(o, processes); }});
}

}  // namespace terngrad
