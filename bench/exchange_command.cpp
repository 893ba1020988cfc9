// A command of its own and no part of terngrad_bench: in an exchange every rank takes part as often as the others,
// while Google Benchmark lets each process choose its iterations by its own clock, and prints for each.
#include "bench/exchange_command.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/exchange_report.h"
#include "bench/exchange_run.h"
#include "compress/cost/compared_codecs.h"
#include "compress/exchange/vendor_codecs.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/launched_command.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/process_group.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/compared_codec_options.h"

namespace terngrad::bench {
namespace {

constexpr const char* kUsage =
    "terngrad_exchange_bench: times exchanges of gradients between the processes that a launcher started.\n"
    "Example: mpirun -np 4 terngrad_exchange_bench --layout alexnet --quantize_logits";

std::vector<std::string> exchange_names() {
  std::vector<std::string> names = choice_words<ExchangeAlgorithm>();
  names.emplace_back(kVendorExchange);
  return names;
}

/// Every codec that some exchange takes, if nobody names others.
std::vector<std::string> measured_codec_names() {
  std::vector<std::string> names = compared_codec_names();
  for (const std::string& codec : vendor_codec_names()) {
    if (std::ranges::find(names, codec) == names.end()) names.push_back(codec);
  }
  return names;
}

/// True if an exchange is measured with the codec.
bool takes(const std::string& exchange, const std::string& codec) {
  if (exchange != kVendorExchange) return codec != "fp16";
  const std::vector<std::string> types = vendor_codec_names();
  return std::ranges::find(types, codec) != types.end();
}

struct Options {
  std::string layout = "lenet";
  int num_nodes = 0;
  std::vector<std::string> codecs = measured_codec_names();
  std::vector<std::string> exchanges = {"auto", kVendorExchange};
  bool quantize_logits = false;
  double clip_factor = 2.5;
  int repetitions = 5;
  int warm_up = 1;
  bool predict = false;
  int threads = 0;
  double exchange_timeout = 600;
  std::string json;
  int num_launched = 1;  // processes
};

bool travels_whole(const std::string& codec) { return codec == "fp32" || codec == "fp16"; }

bool is_vendor(const std::string& exchange) { return exchange == kVendorExchange; }

void declare(OptionSet& options, Options& o) {
  options.group("Exchange");
  options.add("layout", &o.layout, "model whose gradients are exchanged", one_of(net_names()));
  options.add("num_nodes", &o.num_nodes, "workers, 2 or more, spread over the processes; 0: one for each",
              in_range(0, kMaxSummedWorkers));
  options.add(
      "codec", &o.codecs,
      "codec to measure by a spec (--list_codecs), repeatable; t2 and t5 are ternary in 2 and 1.6 bits. fp16 is "
      "for --exchange vendor");
  declare_codec_list(options);
  options.add("exchange", &o.exchanges,
              "how messages travel, repeatable. vendor: an all-reduce of the MPI library, with the codecs that it can "
              "add (fp32, bf16, fp16)",
              one_of(exchange_names()));
  options
      .add_flag("quantize_logits", &o.quantize_logits,
                "compress the logits' weights and biases too, else they travel as fp32")
      .needs("a --codec other than fp32 and an --exchange other than vendor", [&o] {
        return !std::ranges::all_of(o.codecs, travels_whole) && !std::ranges::all_of(o.exchanges, is_vendor);
      });
  options
      .add("clip_factor", &o.clip_factor,
           "ternary whose spec names no clip_factor: clip at this many standard deviations; 0: no clipping",
           at_least(0))
      .needs("--codec t2 or t5, or a spec of ternary",
             [&o] { return std::ranges::any_of(o.codecs, is_compared_ternary); });
  options.group("Measuring");
  options.add("repetitions", &o.repetitions, "exchanges that count, of each codec; the median is shown",
              in_range(1, 1000000));
  options.add("warm_up", &o.warm_up, "exchanges before them that do not count", in_range(0, 1000000));
  options.add_flag("predict", &o.predict,
                   "measure codecs and the link by themselves and print what they predict beside what was measured");
  options.add("threads", &o.threads, "threads of this process; 0: all of the machine", at_least(0))
      .role(OptionRole::kPlace);
  options
      .add("exchange_timeout", &o.exchange_timeout, "seconds after which a process that others wait for has failed",
           greater_than(0))
      .needs("several processes (mpirun -np N)", [&o] { return o.num_launched > 1; });
  options.add("json", &o.json, "file to write all numbers to, those of every process too");
}

/// True if the codec is measured in an integer_sum exchange, whose lanes hold sums of its codes in any format.
bool travels_in_lanes(const std::string& codec) {
  if (!is_compared_ternary(codec)) return false;
  const SpecOptions options = compared_codec_spec(codec, 0).options;
  const auto has = [&](const char* key, const char* value) {
    return std::ranges::find(options, SpecOptions::value_type(key, value)) != options.end();
  };
  return has("format", "t2") && !has("sharing", "none");
}

/// Refuses an exchange or a codec that the user named and of which nothing would be measured.
void check_pairs(const OptionSet& options, const Options& o) {
  for (const std::string& exchange : o.exchanges) {
    const bool any = std::ranges::any_of(o.codecs, [&](const std::string& codec) { return takes(exchange, codec); });
    if (any || !options.was_set("exchange")) continue;
    TERNGRAD_THROW(UsageError, "--exchange ", exchange, ": takes none of these codecs; accepted with it: --codec ",
                   exchange == kVendorExchange ? "fp32, bf16, fp16" : "fp32, bf16, t2, t5, and specs (--list_codecs)");
  }
  for (const std::string& codec : o.codecs) {
    const bool any =
        std::ranges::any_of(o.exchanges, [&](const std::string& exchange) { return takes(exchange, codec); });
    if (any || !options.was_set("codec")) continue;
    TERNGRAD_THROW(UsageError, "--codec ", codec, ": is for --exchange ",
                   takes(kVendorExchange, codec) ? "vendor" : "auto, all_gather, scatter_reduce");
  }
}

/// Refuses what cannot be measured as asked. @param num_processes  of the launch
void check(const OptionSet& options, Options& o, int num_processes) {
  o.num_launched = num_processes;
  if (o.num_nodes == 0) o.num_nodes = num_processes;
  if (o.num_nodes < num_processes) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", o.num_nodes, ": each of the ", num_processes,
                   " processes needs a worker; accepted: 0, ", num_processes, " or more");
  }
  if (o.num_nodes == 1) {
    throw UsageError(
        "--num_nodes 1: one worker exchanges nothing; accepted without a launch (mpirun -np N): 2 or more, whose "
        "messages stay in this process");
  }
  check_compared_codecs(options, o.codecs, o.clip_factor, {"fp16"});
  options.require_needs();
  check_pairs(options, o);
  if (std::ranges::find(o.exchanges, "integer_sum") == o.exchanges.end()) return;
  if (o.codecs.size() != 1 || !travels_in_lanes(o.codecs[0])) {
    throw UsageError(
        "--exchange integer_sum: sends sums of ternary codes in lanes, whatever their format; accepted with it: "
        "--codec t2 alone, or a spec of ternary with shared scalers and no other format");
  }
  if (o.predict) {
    throw UsageError("--predict: is for --exchange auto, all_gather and scatter_reduce, got integer_sum");
  }
}

std::vector<ExchangeResult> measure(const Options& o, ExchangeSubject& subject) {
  std::vector<ExchangeResult> results;
  for (const std::string& exchange : o.exchanges) {
    for (const std::string& codec : o.codecs) {
      if (!takes(exchange, codec)) continue;
      const ExchangeRepetitions repetitions{.warm_up = o.warm_up, .repetitions = o.repetitions};
      if (exchange == kVendorExchange) {
        results.push_back(run_vendor(subject, codec, repetitions));
        continue;
      }
      CompressedAllReduceOptions options =
          compared_codec(codec, {.clip_factor = o.clip_factor, .quantize_logits = o.quantize_logits});
      options.algorithm = *find_choice<ExchangeAlgorithm>(exchange);
      ExchangeResult result = run_exchange(subject, codec, options, repetitions);
      if (o.predict) {
        options.algorithm = *find_choice<ExchangeAlgorithm>(result.exchange);
        result.predicted = predict_exchange(subject, codec, options, o.repetitions);
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

int run(const Options& o, ProcessGroup& processes) {
  processes.set_timeout(o.exchange_timeout);
  const int num_threads = threads_of_process(o.threads, processes);
  ExchangeSubject subject;
  processes.run_collective([&] {
    subject = make_exchange_subject(net_layout(o.layout), make_worker_group(o.num_nodes, processes.communicator()),
                                    num_threads);
  });
  ExchangeReportHeader header{.layout = o.layout,
                              .num_elements = subject.layout.num_elements(),
                              .num_segments = subject.layout.num_segments(),
                              .num_workers = o.num_nodes,
                              .ranks = {},
                              .num_threads = num_threads,
                              .repetitions = o.repetitions,
                              .link = {}};
  for (int rank = 0; rank < processes.size(); ++rank) header.ranks.push_back(processes.name_of(rank));
  if (o.predict) {
    header.link = processes.is_alone() ? kNoLink : fit_link(measure_link(*processes.communicator()));
  }
  const std::vector<ExchangeResult> results = measure(o, subject);
  processes.run_collective([&] {
    if (!processes.is_chief()) return;
    std::cout << to_text(header, results);
    if (!o.json.empty()) write_file_atomically(o.json, to_json(header, results).dump(2) + "\n");
  });
  return kExitSuccess;
}

}  // namespace

int run_exchange_bench(int argc, char** argv) {
  Options o;
  OptionSet options(kUsage);
  declare(options, o);
  return run_launched_command("terngrad_exchange_bench", options, argc, argv,
                              {.check =
                                   [&](const ProcessGroup& processes) {
                                     check(options, o, processes.size());
                                     check_output_file("json", o.json, processes);
                                   },
                               .run = [&](ProcessGroup& processes) { return run(o, processes); }});
}

}  // namespace terngrad::bench
