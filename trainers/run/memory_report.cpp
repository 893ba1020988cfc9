#include "trainers/run/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "compress/exchange/exchange_bytes.h"
#include "compress/exchange/exchange_memory.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/element_type.h"
#include "nets/net_plan.h"
#include "nets/planned_net.h"
#include "trainers/launch/process_group.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/async_options.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/memory_check.h"
#include "trainers/run/net_factory.h"

namespace terngrad {
namespace {

constexpr double kMegabyte = 1e6;

/// Each push is written by its worker, travels as a copy, and is answered with the parameters, which are written first.
double async_message_bytes(const TrainOptions& o, const NetPlan& plan, int num_local_workers, bool serves) {
  const CodecPlan codecs(plan.layout, with_workers(exchange_options(o, o.seed, 1).codecs, o.num_nodes));
  check_codec_plan(o, codecs);
  const auto push =
      static_cast<double>(gradient_message_bytes(codecs, whole_segments(plan.layout), PayloadForm::kNatural));
  const double width = o.downlink_codec == DownlinkCodec::kBfloat16 ? 2 : 4;
  const double answer = width * static_cast<double>(plan.layout.num_elements());
  return num_local_workers * push + push + answer + (serves ? answer : 0);
}

/// Of the exchanges that a run in host memory has.
double exchange_message_bytes(const TrainOptions& o, const NetPlan& plan, const WorkerGroup& workers) {
  if (o.chosen_strategy() == TrainStrategy::kSimple) return 0;
  const auto num_elements = static_cast<double>(plan.layout.num_elements());
  if (o.exchange == TrainExchange::kVendor) return num_elements * (o.codec_name() == "fp32" ? 4 : 6);
  const Buckets buckets = exchange_buckets(o, plan.layout, backward_order(plan));
  const CompressedAllReduceOptions options = exchange_options(o, o.seed, 1);
  check_codec_plan(o, CodecPlan(plan.layout, with_workers(options.codecs, o.num_nodes)));
  std::int64_t bytes = exchange_memory(plan.layout, options, buckets, workers);
  if (o.has_floating_steps()) {
    bytes += exchange_memory(plan.layout, floating_exchange_options(o, o.seed, 1), buckets, workers);
  }
  return static_cast<double>(bytes);
}

/// Of each shard that the rank owns parameters, their gradient and slots, and of rounded ones the unrounded of all.
double served_bytes(const TrainOptions& o, const NetPlan& plan, const WorkerGroup& workers, int num_slots) {
  if (!o.pulls_parameters()) return 0;
  const double parameters = 4.0 * static_cast<double>(plan.layout.flat_elements());
  const auto own = static_cast<double>(shards_of(workers, ShardOwners::kServers, workers.communicator->rank()).count);
  return parameters * ((2 + num_slots) * own / num_shards(workers, ShardOwners::kServers) +
                       (o.downlink_codec == DownlinkCodec::kBfloat16 ? 1 : 0));
}

MemoryUse use_of_process(const TrainOptions& o, const ProcessGroup& processes, const NetPlan& plan) {
  if (is_async(o)) {
    MemoryUse use = async_memory_use(o, processes.rank(), processes.size(), /*is_cpu=*/true);
    use.message_bytes = async_message_bytes(o, plan, static_cast<int>(use.num_workers), use.has_parameters);
    return use;
  }
  const WorkerGroup workers = make_worker_group(o.num_nodes, processes.communicator(), o.num_servers);
  MemoryUse use = memory_use(o, workers.num_local_workers, /*is_cpu=*/true);
  use.message_bytes = exchange_message_bytes(o, plan, workers);
  use.served_bytes = served_bytes(o, plan, workers, use.num_slots);
  return use;
}

/// Neighbours among the processes that have the same parts.
struct Column {
  std::size_t first = 0;
  std::size_t last = 0;
  std::string name() const {
    return first == last ? fmt::format("process {}", first) : fmt::format("each of {}-{}", first, last);
  }
};

bool are_equal(const std::vector<MemoryPart>& a, const std::vector<MemoryPart>& b) {
  return std::ranges::equal(a, b, [](const MemoryPart& one, const MemoryPart& other) {
    return one.name == other.name && one.bytes == other.bytes;
  });
}

std::vector<Column> columns_of(std::span<const std::vector<MemoryPart>> of_processes) {
  std::vector<Column> columns;
  for (std::size_t process = 0; process < of_processes.size(); ++process) {
    if (process > 0 && are_equal(of_processes[process], of_processes[process - 1])) {
      columns.back().last = process;
    } else {
      columns.push_back({process, process});
    }
  }
  return columns;
}

/// The names of all parts, each before those that any process has after it.
std::vector<std::string> names_of(std::span<const std::vector<MemoryPart>> of_processes) {
  std::vector<std::string> names;
  for (const std::vector<MemoryPart>& parts : of_processes) {
    auto next = names.end();
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const auto found = std::ranges::find(names, part->name);
      next = found != names.end() ? found : names.insert(next, part->name);
    }
  }
  return names;
}

std::string megabytes(double bytes) { return fmt::format("{:.2f}", bytes / kMegabyte); }

}  // namespace

std::vector<MemoryPart> memory_of_process(const TrainOptions& o, const ProcessGroup& processes) {
  const std::shared_ptr<const Dataset> training_set = open_dataset(o, Subset::kTrain);
  const std::shared_ptr<const Dataset> test_set = o.benchmark_mode ? nullptr : open_dataset(o, Subset::kTest);
  if (test_set != nullptr) check_test_set(o, *training_set, *test_set);
  try {
    const ImageShape shape{training_set->height(), training_set->width(), training_set->channels()};
    const NetPlan plan = plan_net(net_spec_of(o), shape, training_set->num_classes());
    MemoryUse use = use_of_process(o, processes, plan);
    use.data_bytes = static_cast<double>(training_set->memory_bytes());
    if (test_set != nullptr) {
      use.data_bytes += static_cast<double>(test_set->memory_bytes());
      use.evaluation_threads = processes.is_chief() ? num_threads(o) : 0;
    }
    return estimate_memory(plan, use);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

std::string memory_table(std::span<const std::vector<MemoryPart>> of_processes, const MemoryLimit& limit) {
  const std::vector<Column> columns = columns_of(of_processes);
  std::string text = fmt::format("host memory of this run in MB (10^6 bytes)\n{:<24}", "");
  for (const Column& column : columns) text += fmt::format(" {:>14}", column.name());
  const auto add_line = [&](const std::string& name, const auto& bytes_of) {
    text += fmt::format("\n{:<24}", name);
    for (const Column& column : columns) text += fmt::format(" {:>14}", bytes_of(of_processes[column.first]));
  };
  for (const std::string& name : names_of(of_processes)) {
    add_line(name, [&](const std::vector<MemoryPart>& parts) {
      const auto part = std::ranges::find(parts, name, &MemoryPart::name);
      return part == parts.end() ? std::string("-") : megabytes(part->bytes);
    });
  }
  add_line("total", [](const std::vector<MemoryPart>& parts) { return megabytes(total_bytes(parts)); });
  text += "\n";
  double sum = 0;
  for (const std::vector<MemoryPart>& parts : of_processes) sum += total_bytes(parts);
  if (of_processes.size() > 1) {
    text += fmt::format("all {} processes together {} MB\n", of_processes.size(), megabytes(sum));
  }
  text += "not counted: the program and its libraries, scratch memory of layers and codecs, checkpoints being read\n";
  if (std::isfinite(limit.bytes)) text += fmt::format("{} has {} MB\n", limit.subject, megabytes(limit.bytes));
  return text;
}

std::string memory_report(const TrainOptions& o, const ProcessGroup& processes) {
  nlohmann::json own = nlohmann::json::array();
  processes.run_collective([&] {
    for (const MemoryPart& part : memory_of_process(o, processes)) own.push_back({part.name, part.bytes});
  });
  std::vector<std::vector<MemoryPart>> of_processes;
  for (const std::string& text : processes.all_gather_strings(own.dump())) {
    std::vector<MemoryPart>& parts = of_processes.emplace_back();
    for (const nlohmann::json& part : nlohmann::json::parse(text)) {
      parts.push_back(
          {.name = part.at(0).get<std::string>(), .bytes = part.at(1).get<double>(), .what = "", .lower = ""});
    }
  }
  return processes.is_chief() ? memory_table(of_processes, memory_limit()) : "";
}

}  // namespace terngrad
