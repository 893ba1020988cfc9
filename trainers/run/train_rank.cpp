#include "trainers/run/train_rank.h"

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/hooks/evaluator_watch.h"
#include "trainers/hooks/freeze_hook.h"
#include "trainers/hooks/replica_check.h"
#include "trainers/hooks/step_profile.h"
#include "trainers/hooks/stop_hook.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/process_group.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"
#include "trainers/run/run_reports.h"
#include "trainers/run/run_start.h"
#include "trainers/run/train_factory.h"
#include "trainers/run/train_failure.h"

namespace terngrad {
namespace {

std::string place_text(const TrainOptions& o, const TrainDevices& devices, const ProcessGroup& processes) {
  std::string text = devices.is_cpu() ? "" : devices.description();
  if (devices.is_cpu() || o.exchanges_on_host()) {
    text += (text.empty() ? "" : " and ") + std::to_string(num_threads(o)) + " threads";
  }
  if (processes.is_alone()) return text;
  const std::string servers =
      o.num_servers == 0 ? "" : " (the last " + std::to_string(o.num_servers) + " of them serving)";
  return std::to_string(processes.size()) + " processes" + servers + " of " + text;
}

std::string memory_text(const TrainOptions& o) {
  const std::string memory = memory_spec(o);
  return memory == "none" ? "" : " with memory " + memory;
}

void show_start(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, std::uint64_t first_step,
                const ProcessGroup& processes, ProgressDisplay& display) {
  const Layout& layout = setup.trainer->net().layout();
  const TrainDevices& devices = setup.devices;
  display.message(setup.data_summary);
  display.message("training " + o.net + " on " + o.dataset + ": " + std::to_string(layout.num_elements()) +
                  " parameters, " + std::to_string(o.num_nodes) + (o.num_nodes == 1 ? " worker of " : " workers of ") +
                  std::to_string(o.batch_size / o.num_nodes) + " examples, codec " +
                  (o.codec == "auto" ? o.codec_name() : o.codec) + memory_text(o) + ", " +
                  place_text(o, devices, processes) + ", in " + run.directory.path().string());
  if (!devices.note.empty()) display.message(devices.note + "; computing on the CPU");
  for (const std::string& note : setup.notes) display.message(note);
  if (!o.resume) return;
  display.message(first_step > 0 ? "resumed after step " + std::to_string(first_step)
                                 : "there is no checkpoint yet: starting over");
  if (!run.max_steps_note.empty()) display.message(run.max_steps_note);
  if (!run.device_note.empty()) display.message(run.device_note);
}

/// Prints the run directory and the end of the run to stdout.
void print_summary(const TrainOptions& o, const RunDirectory& directory, std::uint64_t steps_done) {
  // std::endl flushes: if other processes end earlier in another way, the launcher may not wait for this one.
  std::cout << "run directory: " << directory.path().string() << std::endl;
  if (steps_done == static_cast<std::uint64_t>(o.max_steps)) return;
  std::cout << "stopped after step " << steps_done << " of " << o.max_steps
            << "; continue with the same options, --train_dir " << directory.path().string() << " and --resume"
            << std::endl;
}

/// Adds the hooks of every rank, in the same order on each. The replica check is collective and comes before hooks that
/// save.
void add_common_hooks(const TrainOptions& o, Trainer& trainer) {
  if (!o.freeze.empty()) trainer.add_hook(make_freeze_hook(o.freeze, static_cast<std::uint64_t>(o.freeze_until)));
  if (o.check_replicas == 0) return;
  trainer.add_hook(make_replica_check_hook(static_cast<std::uint64_t>(o.check_replicas)));
}

/// Stops a run early: after a time, or at a signal to this process or the evaluator.
std::unique_ptr<Hook> make_stop_hook_for(const TrainOptions& o, const StopSignal& signal, ProgressDisplay& display,
                                         const ProcessGroup& processes) {
  return make_stop_hook(signal, o.stop_after_secs, display, [&processes]() -> std::string {
    return processes.evaluator_signal() != 0 ? "the process that evaluates was asked to" : "";
  });
}

}  // namespace

RunEnd train_and_report(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunStart& start,
                        const ProcessGroup& processes) {
  RunReports reports(o, run.directory, start.first_step);
  ProgressDisplay display;
  show_start(o, setup, run, start.first_step, processes, display);
  add_common_hooks(o, *setup.trainer);
  add_report_hooks(o, setup, run, reports, display);
  const StopSignal stop_signal;
  setup.trainer->add_hook(make_stop_hook_for(o, stop_signal, display, processes));
  if (o.last_rank_evaluates) {
    setup.trainer->add_hook(make_evaluator_watch_hook(o.exchange_timeout, processes.evaluator_name(), display,
                                                      [&processes] { return processes.evaluator_heartbeats(); }));
  }
  StepProfile profile;
  if (o.profile) setup.trainer->add_hook(make_profile_hook(profile));
  std::uint64_t steps_done = 0;
  try {
    steps_done = setup.trainer->run();
    reports.sync(display);
  } catch (const std::exception&) {
    display.finish();
    rethrow_with_advice(run.directory.folder());
  }
  print_summary(o, run.directory, steps_done);
  if (setup.conclusion) std::cout << setup.conclusion();
  if (o.profile) std::cout << profile.to_text();
  return {.is_early = steps_done != static_cast<std::uint64_t>(o.max_steps), .signal = stop_signal.received()};
}

RunEnd train_along(const TrainOptions& o, const TrainSetup& setup, const ProcessGroup& processes) {
  if (setup.run_workers) {
    const StopSignal stop_signal;
    setup.run_workers([&] { return stop_signal.received() != 0; });
    return {.signal = stop_signal.received()};
  }
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  add_common_hooks(o, *setup.trainer);
  add_sender_hooks(o, *setup.trainer);
  const StopSignal stop_signal;
  setup.trainer->add_hook(make_stop_hook_for(o, stop_signal, display, processes));
  setup.trainer->run();
  return {.signal = stop_signal.received()};
}

int agreed_exit_code(const RunEnd& ending, const ProcessGroup& processes) {
  const int received = ending.signal != 0 ? ending.signal : processes.evaluator_signal();
  std::array of_all = {static_cast<std::uint32_t>(received), std::uint32_t{ending.is_early ? 1u : 0u}};
  processes.communicator()->all_reduce_max(of_all);
  const auto [signal, is_early] = of_all;
  return is_early != 0 && signal != 0 ? kExitSignal + static_cast<int>(signal) : kExitSuccess;
}

}  // namespace terngrad
