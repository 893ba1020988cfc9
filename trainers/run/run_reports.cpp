#include "trainers/run/run_reports.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainers/command_line/step_list.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/evaluation_hook.h"
#include "trainers/hooks/gradient_dump_hook.h"
#include "trainers/hooks/histogram_hook.h"
#include "trainers/hooks/metrics_hook.h"
#include "trainers/hooks/progress_hook.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/io/event_file.h"
#include "trainers/io/metrics.h"
#include "trainers/io/metrics_events.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/train_options.h"
#include "trainers/run/run_start.h"
#include "trainers/run/train_factory.h"

namespace terngrad {
namespace {

OnWriteError on_write_error(const TrainOptions& o) {
  return o.on_save_error == OnSaveError::kContinue ? OnWriteError::kKeep : OnWriteError::kThrow;
}

CheckpointHookOptions checkpoint_options(const TrainOptions& o, const RunDirectory& directory) {
  return {.folder = directory.folder(),
          .save_steps = static_cast<std::uint64_t>(o.save_iter),
          .keep_last = o.keep_checkpoints,
          .on_error = o.on_save_error,
          .save_at_start = !o.init_from.empty()};
}

EvaluationSteps evaluation_steps(const TrainOptions& o) {
  const std::vector<std::int64_t> listed = parse_step_list(o.eval_at);
  return {.every = static_cast<std::uint64_t>(o.eval_steps), .listed = {listed.begin(), listed.end()}};
}

}  // namespace

RunReports::RunReports(const TrainOptions& o, const RunDirectory& directory, std::uint64_t first_step)
    : directory_(directory),
      metrics_(std::make_unique<MetricsWriter>(directory.folder(), RunDirectory::kMetricsName, on_write_error(o))) {
  if (o.histogram_steps > 0) {
    histograms_ = std::make_unique<MetricsWriter>(directory.folder(), RunDirectory::kHistogramsName, on_write_error(o));
  }
  if (!o.tensorboard) return;
  events_ = std::make_unique<EventFile>(directory.folder(), wall_seconds, on_write_error(o));
  if (o.resume) events_->purge_from(first_step + 1);
  follow_metrics(*metrics_, *events_);
}

RunReports::~RunReports() = default;

void RunReports::sync(ProgressDisplay& display) {
  const auto tell = [&](bool is_restored, const std::filesystem::path& path) {
    if (is_restored) display.message("'" + path.string() + "' was deleted during the run: it is written again, whole");
  };
  tell(directory_.restore_config(), directory_.config_path());
  tell(metrics_->sync(), directory_.metrics_path());
  if (histograms_) tell(histograms_->sync(), directory_.histograms_path());
  if (events_) tell(events_->sync(), events_->path());
}

void add_report_hooks(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunReports& reports,
                      ProgressDisplay& display) {
  Trainer& trainer = *setup.trainer;
  const auto log_steps = static_cast<std::uint64_t>(o.log_steps);
  if (reports.histograms() != nullptr) {
    trainer.add_hook(make_histogram_hook(*reports.histograms(), reports.events(),
                                         static_cast<std::uint64_t>(o.histogram_steps), setup.test_set));
  }
  if (o.dump_gradients > 0) {
    trainer.add_hook(make_gradient_dump_hook({.run = run.directory.folder(),
                                              .dump_steps = static_cast<std::uint64_t>(o.dump_gradients),
                                              .continues_after_errors = o.on_save_error == OnSaveError::kContinue},
                                             display));
  }
  trainer.add_hook(make_progress_hook(display, log_steps));
  trainer.add_hook(make_metrics_hook(reports.metrics(), log_steps, static_cast<std::uint64_t>(o.telemetry_steps)));
  trainer.add_hook(std::make_unique<CheckpointHook>(
      checkpoint_options(o, run.directory), setup.state, [&reports, &display] { reports.sync(display); }, display));
  // After the checkpoint, so that a failed evaluation loses no steps.
  if (setup.test_set == nullptr) return;
  auto evaluation =
      std::make_unique<EvaluationHook>(setup.test_set, reports.metrics(), display, evaluation_steps(o), num_threads(o));
  if (run.evaluated) evaluation->set_evaluated(*run.evaluated);
  trainer.add_hook(std::move(evaluation));
}

void add_sender_hooks(const TrainOptions& o, Trainer& trainer) {
  if (o.dump_gradients > 0) {
    trainer.add_hook(make_gradient_sender_hook(static_cast<std::uint64_t>(o.dump_gradients)));
  }
  trainer.add_hook(make_state_sender_hook(
      {.save_steps = static_cast<std::uint64_t>(o.save_iter), .save_at_start = !o.init_from.empty()}));
}

}  // namespace terngrad
