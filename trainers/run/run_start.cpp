#include "trainers/run/run_start.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/checkpoint/warm_start.h"
#include "trainers/command_line/step_list.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/metrics.h"
#include "trainers/launch/process_group.h"
#include "trainers/options/train_options.h"
#include "trainers/run/train_factory.h"
#include "trainers/run/training_state.h"

namespace terngrad {
namespace {

/// The steps that have evaluations in a metrics file.
std::set<std::uint64_t> evaluated_steps(const std::filesystem::path& path) {
  std::set<std::uint64_t> steps;
  if (!std::filesystem::exists(path)) return steps;
  std::istringstream lines(read_file_text(path));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.value("kind", nlohmann::json()) == "test")
      steps.insert(line.at("step").get<std::uint64_t>());
  }
  return steps;
}

/// Refuses --eval_at steps before `first_step` that have no evaluation in the metrics.
void require_evaluations(const TrainOptions& o, std::uint64_t first_step, const std::set<std::uint64_t>& evaluated) {
  for (const std::int64_t listed : parse_step_list(o.eval_at)) {
    const auto step = static_cast<std::uint64_t>(listed);
    if (step >= first_step) return;
    if (evaluated.contains(step)) continue;
    TERNGRAD_THROW(UsageError, "--eval_at ", o.eval_at, ": the run continues after step ", first_step,
                   " and was not evaluated at step ", step, "; accepted: steps from ", first_step,
                   " on, and those at which it was evaluated");
  }
}

/// Refuses to restart a run of --init_from without a checkpoint: its initial parameters are not known.
void require_no_warm_start(const RunDirectory& directory) {
  const auto config = nlohmann::json::parse(read_file_text(directory.config_path()), nullptr, false);
  const nlohmann::json::json_pointer first_start("/history/0/options/init_from");
  if (!config.contains(first_start) || config.value(first_start, "").empty()) return;
  TERNGRAD_THROW(UsageError, "--resume: the run in ", directory.path().string(),
                 " began with --init_from and has no checkpoint yet; remove the folder and start it again");
}

/// Loads the checkpoint of --init_from.
Checkpoint load_init_from(const TrainOptions& o) {
  try {
    // Instead of load_checkpoint, whose errors give advice for --resume.
    return parse_checkpoint(read_file_bytes(o.init_from), o.init_from);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--init_from ", o.init_from, ": ", error.what());
  }
}

bool is_set_by_user(const RunDescription& description, std::string_view name) {
  return std::ranges::any_of(description.options,
                             [&](const OptionValue& option) { return option.name == name && option.set_by_user; });
}

/// Restores the trainer from the checkpoint, if there is one.
void apply(const TrainOptions& o, const TrainSetup& setup, RunStart& start) {
  // Workers of --strategy async get everything from the server.
  if (!start.checkpoint || setup.trainer == nullptr) return;
  const Checkpoint& checkpoint = *start.checkpoint;
  if (o.resume) {
    restore(checkpoint, setup.identity, static_cast<std::uint64_t>(o.max_steps), *setup.trainer);
    start.first_step = checkpoint.state().step;
    return;
  }
  try {
    begin_from(checkpoint, o.fine_tune ? WarmStart::kNoLogits : WarmStart::kAll, *setup.trainer);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--init_from ", o.init_from, ": ", error.what());
  }
}

/// Broadcasts the chief's checkpoint, so that other ranks need not see its folder.
void share_checkpoint(const ProcessGroup& processes, std::optional<Checkpoint>& checkpoint) {
  if (processes.is_alone()) return;
  const std::string source = processes.broadcast_string(checkpoint ? checkpoint->source() : "");
  if (source.empty()) return;
  std::string content;
  if (processes.is_chief()) {
    content.assign(reinterpret_cast<const char*>(checkpoint->content().data()), checkpoint->content().size());
  }
  content = processes.broadcast_string(content);
  if (processes.is_chief()) return;
  const auto* const bytes = reinterpret_cast<const std::byte*>(content.data());
  checkpoint = parse_checkpoint({bytes, bytes + content.size()}, source);
}

/// Records a resume in `directory`, and truncates metrics and histograms to the resumed step.
StartedRun resume_run(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                      const RunStart& start, RunDirectory directory) {
  StartedRun run{.directory = std::move(directory)};
  RecordedIdentity recorded;
  if (start.checkpoint) {
    recorded = recorded_identity(start.checkpoint->state());
  } else {
    require_no_warm_start(run.directory);
    recorded = run.directory.recorded_identity();
    if (!recorded.empty()) {
      check_same_run(setup.identity, recorded, "the run in '" + run.directory.path().string() + "'");
    }
  }
  run.max_steps_note = check_max_steps(recorded, o.max_steps, is_set_by_user(description, "max_steps"));
  const std::string device = run.directory.recorded_device();
  if (!device.empty() && device != description.device) {
    run.device_note = "the run was on " + device + ": from here on its bits are those of " + description.device;
  }
  const std::set<std::uint64_t> evaluated = evaluated_steps(run.directory.metrics_path());
  require_evaluations(o, start.first_step, evaluated);
  run.directory.record_start(description, start.first_step);
  for (const char* name : {RunDirectory::kMetricsName, RunDirectory::kHistogramsName}) {
    truncate_to_step(run.directory.folder(), name, start.first_step);
  }
  if (evaluated.contains(start.first_step)) run.evaluated = start.first_step;
  return run;
}

}  // namespace

std::optional<StartedRun> start_run(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                                    const ProcessGroup& processes, RunStart& start) {
  std::optional<RunDirectory> resumed;
  processes.run_collective([&] {
    if (!processes.is_chief()) return;
    if (!o.init_from.empty()) start.checkpoint = load_init_from(o);
    if (!o.resume) return;
    resumed = RunDirectory::resume(o.train_dir);
    start.checkpoint = load_newest(resumed->path());
  });
  share_checkpoint(processes, start.checkpoint);
  std::optional<StartedRun> run;
  processes.run_collective([&] { apply(o, setup, start); });
  processes.run_collective([&] {
    if (!processes.is_chief()) return;
    if (o.resume) {
      run = resume_run(o, description, setup, start, *std::move(resumed));
    } else {
      run = StartedRun{.directory = RunDirectory::create(o.train_dir, description)};
    }
  });
  return run;
}

}  // namespace terngrad
