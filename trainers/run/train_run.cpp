#include "trainers/run/train_run.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/machine.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/process_group.h"
#include "trainers/loop/message_dump.h"
#include "trainers/loop/trace.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/async_options.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/memory_report.h"
#include "trainers/run/rank_consistency.h"
#include "trainers/run/run_start.h"
#include "trainers/run/train_factory.h"
#include "trainers/run/train_rank.h"

namespace terngrad {
namespace {

/// Draws a unique id of the run; for a single process, which sends no messages to others, the seed.
std::uint64_t draw_run_id(const TrainOptions& o, const ProcessGroup& processes) {
  if (processes.is_alone()) return o.seed;
  std::random_device random;
  const std::uint64_t drawn = (std::uint64_t{random()} << 32) ^ random();
  return std::stoull(processes.broadcast_string(std::to_string(drawn)));
}

/// Collective: opens the training set, or this process's shard of it.
TrainingData open_data(const TrainOptions& o, const ProcessGroup& processes) {
  TrainingData shard;
  processes.run_collective([&] { shard = whole_data(open_dataset(o, Subset::kTrain)); });
  if (!o.data_shards) return shard;
  std::exception_ptr failure;
  TrainingData data;
  try {
    data = join_shards(shard, *processes.communicator(), o.num_servers);
  } catch (const DataError&) {
    failure = std::current_exception();
  }
  // All ranks have the same error, which GroupError prints once.
  processes.run_collective([&] {
    if (failure) std::rethrow_exception(failure);
  });
  return data;
}

TrainSetup set_up(const TrainOptions& o, RunContext& context, const ProcessGroup& processes) {
  if (is_async(o) && !processes.is_alone()) context.mailbox = processes.make_mailbox();
  TrainSetup setup;
  processes.run_collective([&] { setup = make_train_setup(o, context); });
  return setup;
}

}  // namespace

int train(const TrainOptions& o, RunDescription description, const ProcessGroup& processes) {
  RunContext context = make_run_context(o, processes.communicator(), draw_run_id(o, processes));
  context.data = open_data(o, processes);
  std::optional<Trace> trace;
  if (o.trace_steps > 0) context.trace = &trace.emplace(static_cast<std::uint64_t>(o.trace_steps));
  if (!o.dump_messages.empty()) {
    context.dump = std::make_shared<MessageDump>(o.dump_messages, processes.rank(), o.num_nodes,
                                                 static_cast<std::uint64_t>(o.dump_steps));
  }
  TrainSetup setup = set_up(o, context, processes);
  if (o.last_rank_evaluates) setup.test_set.reset();
  description.identity = recorded_identity(setup.identity);
  description.device = setup.devices.model();
  description.hosts = processes.hosts();
  require_same_on_all_ranks(processes, description.options, description.identity);
  RunStart start;
  const std::optional<StartedRun> run = start_run(o, description, setup, processes, start);
  start.checkpoint.reset();
  if (trace) {
    std::optional<Folder> folder;
    if (run) folder = run->directory.folder();
    const auto on_error = [](const std::string& message) { print_error("terngrad_train", "no trace: " + message); };
    setup.trainer->add_hook(make_trace_hook(*trace, processes.name_of(processes.rank()), folder, on_error));
  }
  const RunEnd end = run ? train_and_report(o, setup, *run, start, processes) : train_along(o, setup, processes);
  return agreed_exit_code(end, processes);
}

std::string measure_memory(const TrainOptions& o, const ProcessGroup& processes) {
  constexpr std::uint64_t kSteps = 3;  // message buffers have reached their final size by then
  double last = 0;
  const auto added = [&last] {
    const double now = resident_bytes();
    return now - std::exchange(last, now);
  };
  MemoryStages own;
  own.program = added();
  RunContext context = make_run_context(o, processes.communicator(), draw_run_id(o, processes));
  context.data = open_data(o, processes);
  own.data = added();
  TrainSetup setup = set_up(o, context, processes);
  own.setup = added();
  if (setup.run_workers) {
    setup.run_workers([] { return false; });
  } else {
    const auto stop = [](const TrainingView&, const StepView&) { return HookVerdict::kStop; };
    setup.trainer->add_hook(at_step(kSteps, stop, HookRanks::kEvery));
    setup.trainer->run();
  }
  own.steps = added();
  own.peak = peak_resident_bytes();
  std::vector<MemoryStages> of_processes;
  for (const std::string& bytes : processes.all_gather_strings({reinterpret_cast<const char*>(&own), sizeof(own)})) {
    std::memcpy(&of_processes.emplace_back(), bytes.data(), sizeof(own));
  }
  return processes.is_chief() ? memory_table(of_processes, memory_limit()) : "";
}

}  // namespace terngrad
