#include "trainers/commands/train_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/version.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/commands/eval_command.h"
#include "trainers/commands/launched_command.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/evaluation_hook.h"
#include "trainers/hooks/evaluator_watch.h"
#include "trainers/hooks/histogram_hook.h"
#include "trainers/hooks/interval.h"
#include "trainers/hooks/metrics_hook.h"
#include "trainers/hooks/progress_hook.h"
#include "trainers/hooks/replica_check.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/hooks/step_profile.h"
#include "trainers/hooks/stop_hook.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/event_file.h"
#include "trainers/io/metrics_events.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/gpu_assignment.h"
#include "trainers/launch/process_group.h"
#include "trainers/loop/trace.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/async_options.h"
#include "trainers/options/train_option_checks.h"
#include "trainers/options/train_options.h"
#include "trainers/run/rank_consistency.h"
#include "trainers/run/run_directory.h"
#include "trainers/run/train_factory.h"
#include "trainers/run/train_failure.h"
#include "trainers/run/training_state.h"

namespace terngrad {
namespace {

constexpr const char* kTrainUsage =
    "terngrad_train: trains a network with N workers, emulated or on many hosts, whose gradients are compressed and "
    "exchanged.\n"
    "Example: terngrad_train --grad_bits 1 --clip_factor 2.5 --num_nodes 8";

/// A folder of its own for a run that names none.
std::string default_train_dir(const TrainOptions& o) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  // The process tells runs apart that begin within a second.
  const std::string stem = "runs/" + o.dataset + "-" + o.net + "-" + o.codec_name() + "-n" +
                           std::to_string(o.num_nodes) + "-" + stamp + "-" + std::to_string(::getpid());
  std::string name = stem;
  for (int suffix = 2; std::filesystem::exists(name); ++suffix) name = stem + "-" + std::to_string(suffix);
  return name;
}

/// The step of the last evaluation in a metrics file.
std::optional<std::uint64_t> last_evaluation(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::optional<std::uint64_t> step;
  std::istringstream lines(read_file_text(path));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.value("kind", nlohmann::json()) == "test") step = line.at("step").get<std::uint64_t>();
  }
  return step;
}

/// Refuses to start over a run that began with another's parameters: without a checkpoint of its own they are not
/// known.
void require_no_warm_start(const RunDirectory& directory) {
  const auto config = nlohmann::json::parse(read_file_text(directory.config_path()), nullptr, false);
  const nlohmann::json::json_pointer first_start("/history/0/options/init_from");
  if (!config.contains(first_start) || config.value(first_start, "").empty()) return;
  TERNGRAD_THROW(UsageError, "--resume: the run in ", directory.path().string(),
                 " began with --init_from and has no checkpoint yet; remove the folder and start it again");
}

/// The checkpoint of --init_from.
Checkpoint load_init_from(const TrainOptions& o) {
  try {
    // Not load_checkpoint, whose advice is about the folder of a run that is to go on.
    return parse_checkpoint(read_file_bytes(o.init_from), o.init_from);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--init_from ", o.init_from, ": ", error.what());
  }
}

bool is_set_by_user(const RunDescription& description, std::string_view name) {
  return std::ranges::any_of(description.options,
                             [&](const OptionValue& option) { return option.name == name && option.set_by_user; });
}

/// What a run goes on from, on every rank.
struct Beginning {
  std::optional<Checkpoint> checkpoint;  // of the run itself with --resume, of another with --init_from
  std::uint64_t first_step = 0;
  Interval interval;  // of the metrics, if the save fell between two of their lines
};

/// Puts the checkpoint, if there is one, into the trainer.
void apply(const TrainOptions& o, const TrainSetup& setup, Beginning& beginning) {
  // Workers of --strategy async have all they need from the server.
  if (!beginning.checkpoint || setup.trainer == nullptr) return;
  const Checkpoint& checkpoint = *beginning.checkpoint;
  if (o.resume) {
    restore(checkpoint, setup.state, static_cast<std::uint64_t>(o.max_steps), *setup.trainer, beginning.interval);
    beginning.first_step = checkpoint.state().step;
    return;
  }
  try {
    begin_from(checkpoint, o.fine_tune ? WarmStart::kNoLogits : WarmStart::kAll, *setup.trainer);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--init_from ", o.init_from, ": ", error.what());
  }
}

/// The chief's checkpoint on every rank, which need not see its folder.
void share_checkpoint(const ProcessGroup& processes, std::optional<Checkpoint>& checkpoint) {
  if (processes.is_alone()) return;
  const std::string source = processes.from_chief(checkpoint ? checkpoint->source() : "");
  if (source.empty()) return;
  std::string content;
  if (processes.is_chief()) {
    content.assign(reinterpret_cast<const char*>(checkpoint->content().data()), checkpoint->content().size());
  }
  content = processes.from_chief(content);
  if (processes.is_chief()) return;
  const auto* const bytes = reinterpret_cast<const std::byte*>(content.data());
  checkpoint = parse_checkpoint({bytes, bytes + content.size()}, source);
}

/// A run that is about to train, as the chief keeps it: at its beginning, or where it was resumed.
struct StartedRun {
  RunDirectory directory;
  std::optional<std::uint64_t> evaluated = {};  // step of the last evaluation in the metrics
  std::string max_steps_note = {};              // as check_max_steps
  std::string device_note = {};                 // where the run was before, if that is another device
};

/// Records that the run in `directory` goes on, and cuts its metrics off where it does.
StartedRun go_on(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                 const Beginning& beginning, RunDirectory directory) {
  StartedRun run{.directory = std::move(directory)};
  RunIdentity recorded;
  if (beginning.checkpoint) {
    recorded = identity_of(beginning.checkpoint->state());
  } else {
    require_no_warm_start(run.directory);
    recorded = run.directory.recorded_identity();
    if (!recorded.empty()) {
      check_same_run(identity_of(setup.state), recorded, "the run in '" + run.directory.path().string() + "'");
    }
  }
  run.max_steps_note = check_max_steps(recorded, o.max_steps, is_set_by_user(description, "max_steps"));
  const std::string device = run.directory.recorded_device();
  if (!device.empty() && device != description.device) {
    run.device_note = "the run was on " + device + ": from here on its bits are those of " + description.device;
  }
  run.directory.record_start(description, beginning.first_step);
  truncate_to_step(run.directory.folder(), RunDirectory::kMetricsName, beginning.first_step);
  run.evaluated = last_evaluation(run.directory.metrics_path());
  return run;
}

/// Brings every rank to where the run begins or goes on. @returns the chief's run, nothing on other ranks
std::optional<StartedRun> start_run(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                                    const ProcessGroup& processes, Beginning& beginning) {
  std::optional<RunDirectory> resumed;
  processes.together([&] {
    if (!processes.is_chief()) return;
    if (!o.init_from.empty()) beginning.checkpoint = load_init_from(o);
    if (!o.resume) return;
    resumed = RunDirectory::resume(o.train_dir);
    beginning.checkpoint = load_newest(resumed->path());
  });
  share_checkpoint(processes, beginning.checkpoint);
  std::optional<StartedRun> run;
  processes.together([&] { apply(o, setup, beginning); });
  processes.together([&] {
    if (!processes.is_chief()) return;
    if (o.resume) {
      run = go_on(o, description, setup, beginning, *std::move(resumed));
    } else {
      run = StartedRun{.directory = RunDirectory::create(o.train_dir, description)};
    }
  });
  return run;
}

bool goes_on_after_errors(const TrainOptions& o) { return o.on_save_error == "continue"; }

/// What a run writes besides checkpoints: metrics.jsonl, and an event file unless --tensorboard=false.
class Reports {
 public:
  Reports(const TrainOptions& o, const RunDirectory& directory, std::uint64_t first_step)
      : directory_(directory), metrics_(directory.folder(), RunDirectory::kMetricsName, on_error(o)) {
    if (!o.tensorboard) return;
    events_.emplace(directory.folder(), wall_seconds, on_error(o));
    if (o.resume) events_->purge_from(first_step + 1);
    follow_metrics(metrics_, *events_);
  }
  // The metrics' follower refers to the events.
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  MetricsWriter& metrics() { return metrics_; }
  EventFile* events() { return events_ ? &*events_ : nullptr; }
  /// Returns once both files, what was kept back while the disk was full included, are on the medium. What was deleted
  /// under way, config.json included, is written again, and `display` told.
  void sync(ProgressDisplay& display) {
    const auto tell = [&](bool is_restored, const std::filesystem::path& path) {
      if (is_restored)
        display.message("'" + path.string() + "' was deleted during the run: it is written again, whole");
    };
    tell(directory_.restore_config(), directory_.config_path());
    tell(metrics_.sync(), directory_.metrics_path());
    if (events_) tell(events_->sync(), events_->path());
  }

 private:
  static OnWriteError on_error(const TrainOptions& o) {
    return goes_on_after_errors(o) ? OnWriteError::kKeep : OnWriteError::kThrow;
  }
  const RunDirectory& directory_;
  MetricsWriter metrics_;
  std::optional<EventFile> events_;
};

std::string place_text(const TrainOptions& o, const DeviceChoice& devices, const ProcessGroup& processes) {
  std::string text = devices.is_cpu() ? "" : devices.description();
  if (devices.is_cpu() || o.exchanges_on_host()) {
    text += (text.empty() ? "" : " and ") + std::to_string(num_threads(o)) + " threads";
  }
  if (processes.is_alone()) return text;
  const std::string servers =
      o.num_servers == 0 ? "" : " (the last " + std::to_string(o.num_servers) + " of them serving)";
  return std::to_string(processes.size()) + " processes" + servers + " of " + text;
}

void show_start(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, std::uint64_t first_step,
                const ProcessGroup& processes, ProgressDisplay& display) {
  const Layout& layout = setup.trainer->net().layout();
  const DeviceChoice& devices = setup.devices;
  display.message(setup.data_summary);
  display.message("training " + o.net + " on " + o.dataset + ": " + std::to_string(layout.num_elements()) +
                  " parameters, " + std::to_string(o.num_nodes) + (o.num_nodes == 1 ? " worker of " : " workers of ") +
                  std::to_string(o.batch_size / o.num_nodes) + " examples, codec " + o.codec_name() + ", " +
                  place_text(o, devices, processes) + ", in " + run.directory.path().string());
  if (!devices.note.empty()) display.message(devices.note + "; computing on the CPU");
  for (const std::string& note : setup.notes) display.message(note);
  if (!o.resume) return;
  display.message(first_step > 0 ? "resumed after step " + std::to_string(first_step)
                                 : "there is no checkpoint yet: starting over");
  if (!run.max_steps_note.empty()) display.message(run.max_steps_note);
  if (!run.device_note.empty()) display.message(run.device_note);
}

CheckpointHookOptions checkpoint_options(const TrainOptions& o, const RunDirectory& directory) {
  return {.folder = directory.folder(),
          .save_steps = static_cast<std::uint64_t>(o.save_iter),
          .keep_last = o.keep_checkpoints,
          .on_error = goes_on_after_errors(o) ? OnSaveError::kContinue : OnSaveError::kStop,
          .save_at_start = !o.init_from.empty()};
}

/// Adds all that reports and saves, in the order that each hook asks for. The arguments outlive the training.
void add_hooks(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, Interval& interval,
               Reports& reports, ProgressDisplay& display) {
  Trainer& trainer = *setup.trainer;
  const auto log_steps = static_cast<std::uint64_t>(o.log_steps);
  if (reports.events() != nullptr) {
    trainer.add_hook(make_histogram_hook(*reports.events(), static_cast<std::uint64_t>(o.histogram_steps)));
  }
  trainer.add_hook(make_progress_hook(display, log_steps, interval));
  trainer.add_hook(
      make_metrics_hook(reports.metrics(), log_steps, static_cast<std::uint64_t>(o.telemetry_steps), interval));
  trainer.add_hook(std::make_unique<CheckpointHook>(
      checkpoint_options(o, run.directory), setup.state, [&reports, &display] { reports.sync(display); }, interval,
      display));
  // After the checkpoint, so that an evaluation that fails costs nothing.
  if (setup.test_set == nullptr) return;
  auto evaluation = std::make_unique<EvaluationHook>(setup.test_set, reports.metrics(), display,
                                                     static_cast<std::uint64_t>(o.eval_steps), num_threads(o));
  if (run.evaluated) evaluation->set_evaluated(*run.evaluated);
  trainer.add_hook(std::move(evaluation));
}

/// Says on stdout where the run is and what became of it.
void conclude(const TrainOptions& o, const RunDirectory& directory, std::uint64_t steps_done) {
  // At once: where other processes end sooner and in another way, the launcher may not wait for this one's exit.
  std::cout << "run directory: " << directory.path().string() << std::endl;
  if (steps_done == static_cast<std::uint64_t>(o.max_steps)) return;
  std::cout << "stopped after step " << steps_done << " of " << o.max_steps
            << "; go on with the same options, --train_dir " << directory.path().string() << " and --resume"
            << std::endl;
}

/// How a rank has ended its part of a run, in good order.
struct Ending {
  bool is_early = false;  // as the chief sees it: others may not know
  int signal = 0;         // that came to this rank, 0 for none
};

/// The exit code of the run, the same on all ranks, whichever of them a signal came to; a collective call. The end of
/// MPI has no deadline: here a rank that hangs, in the last evaluation say, is named.
int agreed_exit_code(const Ending& ending, const ProcessGroup& processes) {
  const int received = ending.signal != 0 ? ending.signal : processes.signal_of_aside();
  std::array of_all = {static_cast<std::uint32_t>(received), std::uint32_t{ending.is_early ? 1u : 0u}};
  processes.communicator()->all_reduce_max(of_all);
  const auto [signal, is_early] = of_all;
  return is_early != 0 && signal != 0 ? kExitSignal + static_cast<int>(signal) : kExitSuccess;
}

/// Adds what comes before anything is saved, on every rank in this order: it waits for the others.
void add_replica_check(const TrainOptions& o, Trainer& trainer) {
  if (o.check_replicas == 0) return;
  trainer.add_hook(make_replica_check_hook(static_cast<std::uint64_t>(o.check_replicas)));
}

/// What stops a run early: time, a signal of this process, or one of the rank that evaluates.
std::unique_ptr<Hook> make_stop_hook_for(const TrainOptions& o, const StopSignal& signal, ProgressDisplay& display,
                                         const ProcessGroup& processes) {
  return make_stop_hook(signal, o.stop_after_secs, display, [&processes]() -> std::string {
    return processes.signal_of_aside() != 0 ? "the process that evaluates was asked to" : "";
  });
}

/// Trains as the chief, which reports and saves.
Ending train_and_report(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, Beginning& beginning,
                        const ProcessGroup& processes) {
  Reports reports(o, run.directory, beginning.first_step);
  ProgressDisplay display;
  show_start(o, setup, run, beginning.first_step, processes, display);
  add_replica_check(o, *setup.trainer);
  add_hooks(o, setup, run, beginning.interval, reports, display);
  const StopSignal stop_signal;
  setup.trainer->add_hook(make_stop_hook_for(o, stop_signal, display, processes));
  if (o.last_rank_evaluates) {
    setup.trainer->add_hook(make_evaluator_watch_hook(o.exchange_timeout, processes.name_of_aside(), display,
                                                      [&processes] { return processes.heartbeats_of_aside(); }));
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
  conclude(o, run.directory, steps_done);
  if (setup.conclusion) std::cout << setup.conclusion();
  if (o.profile) std::cout << profile.to_text();
  return {.is_early = steps_done != static_cast<std::uint64_t>(o.max_steps), .signal = stop_signal.received()};
}

/// Trains as another rank.
Ending train_along(const TrainOptions& o, const TrainSetup& setup, const ProcessGroup& processes) {
  if (setup.async_rank != nullptr) {
    const StopSignal stop_signal;
    setup.async_rank->run([&] { return stop_signal.received() != 0; });
    return {.signal = stop_signal.received()};
  }
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  add_replica_check(o, *setup.trainer);
  setup.trainer->add_hook(make_state_sender_hook(
      {.save_steps = static_cast<std::uint64_t>(o.save_iter), .save_at_start = !o.init_from.empty()}));
  const StopSignal stop_signal;
  setup.trainer->add_hook(make_stop_hook_for(o, stop_signal, display, processes));
  setup.trainer->run();
  return {.signal = stop_signal.received()};
}

/// A number that no other run has; for a run of one process, whose messages reach no other, simply the seed.
std::uint64_t draw_run_id(const TrainOptions& o, const ProcessGroup& processes) {
  if (processes.is_alone()) return o.seed;
  std::random_device random;
  const std::uint64_t drawn = (std::uint64_t{random()} << 32) ^ random();
  return std::stoull(processes.from_chief(std::to_string(drawn)));
}

/// This process's share of the data, agreed on with the others.
TrainingData open_shares(const TrainOptions& o, const ProcessGroup& processes) {
  TrainingData share;
  processes.together([&] { share = whole_data(open_training_set(o)); });
  std::exception_ptr failure;
  TrainingData data;
  try {
    data = join_shares(share, *processes.communicator(), o.num_servers);
  } catch (const DataError&) {
    failure = std::current_exception();
  }
  // All have the same to say.
  processes.together([&] {
    if (failure) std::rethrow_exception(failure);
  });
  return data;
}

/// The options with the folder of this process's share of the data, if it has one. The ranks are those of the launch.
TrainOptions with_share(TrainOptions o, const ProcessGroup& processes) {
  const int num_others = o.num_servers + (o.last_rank_evaluates ? 1 : 0);
  if (o.data_shares) o.data_dir = share_folder(o.data_dir, processes.rank(), processes.size() - num_others);
  return o;
}

/// Trains and @returns the exit code.
int train(const TrainOptions& o, RunDescription description, const ProcessGroup& processes) {
  TrainPlace place = make_train_place(o, processes.communicator(), draw_run_id(o, processes));
  if (o.data_shares) place.data = open_shares(o, processes);
  std::optional<Trace> trace;
  if (o.trace_steps > 0) place.trace = &trace.emplace(static_cast<std::uint64_t>(o.trace_steps));
  if (!o.dump_messages.empty()) {
    place.dump = std::make_shared<MessageDump>(o.dump_messages, processes.rank(), o.num_nodes,
                                               static_cast<std::uint64_t>(o.dump_steps));
  }
  if (is_async(o) && !processes.is_alone()) place.mailbox = processes.make_mailbox();
  TrainSetup setup;
  processes.together([&] {
    setup = make_train_setup(o, place);
    if (o.last_rank_evaluates) setup.test_set.reset();
  });
  description.identity = identity_of(setup.state);
  description.device = setup.devices.model();
  description.hosts = processes.hosts();
  require_same_on_all_ranks(processes, description.options, description.identity);
  Beginning beginning;
  const std::optional<StartedRun> run = start_run(o, description, setup, processes, beginning);
  beginning.checkpoint.reset();
  if (trace) {
    const auto folder = run ? std::optional(run->directory.folder()) : std::nullopt;
    const auto on_error = [](const std::string& message) { print_error("terngrad_train", "no trace: " + message); };
    setup.trainer->add_hook(make_trace_hook(*trace, processes.name_of(processes.rank()), folder, on_error));
  }
  const Ending ending = run ? train_and_report(o, setup, *run, beginning, processes) : train_along(o, setup, processes);
  return agreed_exit_code(ending, processes);
}

/// Evaluates, as the rank that was set aside, what the others save in `directory`. What fails in that does not disturb
/// the training. @returns the exit code
int evaluate_along(const TrainOptions& o, const std::string& directory, ProcessGroup& processes) {
  const StopSignal signal;
  const auto problem = [](const std::string& what) { print_error("terngrad_train", "--last_rank_evaluates: " + what); };
  RunEvaluator evaluator({.directory = directory, .data_dir = o.data_dir, .threads = o.threads}, problem,
                         [&] { processes.tell_launch_busy(); });
  const auto is_over = [&] {
    processes.tell_launch_busy();
    return processes.others_have_ended() || signal.received() != 0;
  };
  // Looks that fail come less and less often: what they read is the training's processors and file system too.
  constexpr int kMostTenths = 300;
  int tenths = 10;
  while (!is_over()) {
    tenths = evaluator.look(is_over) ? 10 : std::min(2 * tenths, kMostTenths);
    for (int i = 0; i < tenths && !is_over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (signal.received() != 0) processes.ask_to_end(signal.received());
  // They end when they have saved, which takes what it takes.
  while (!processes.others_have_ended()) {
    processes.tell_launch_busy();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  // A launcher that has sent signals does not wait for long.
  const bool is_complete = signal.received() != 0 ? evaluator.look_at_newest() : evaluator.look();
  if (!is_complete) problem("not all checkpoints that are there are evaluated");
  if (signal.received() != 0) return kExitSignal + signal.received();
  return is_complete ? kExitSuccess : kExitFailure;
}

/// Does this rank's part of a run. @returns the exit code
int take_part(const TrainOptions& of_launch, RunDescription description, ProcessGroup& processes) {
  const TrainOptions o = with_share(of_launch, processes);
  processes.set_timeout(o.exchange_timeout);
  if (!o.last_rank_evaluates) return train(o, std::move(description), processes);
  const std::string directory = processes.from_chief(o.train_dir);
  processes.set_last_rank_aside();
  const int exit_code =
      processes.is_aside() ? evaluate_along(o, directory, processes) : train(o, std::move(description), processes);
  processes.meet_launch();
  return exit_code;
}

/// The options of the command line, yet to be checked.
ParseResult read_options(int argc, char** argv, OptionSet& options, TrainOptions& o) {
  const ParseResult parsed = options.parse(argc, argv);
  apply_dataset_defaults(options, o);
  apply_async_defaults(options, o);
  return parsed;
}

/// Finds this process's GPUs among those of all processes, where several train; a collective call.
void find_gpus(TrainOptions& o, const ProcessGroup& processes) {
  if (o.num_processes == 1) return;
  const GpuUse use = o.exchanges_on_host() ? GpuUse::kShared : GpuUse::kExclusive;
  // Processes that only serve are the last ones, and need no GPU.
  const int num_serving = o.strategy == "ps" ? o.num_servers : 0;
  const int num_computing = std::max(1, o.num_processes - num_serving);
  const bool computes = processes.rank() < num_computing;
  ProcessGpus own;
  processes.together([&] { own = own_gpus(processes, computes ? o.device : "cpu", o.num_gpus, o.math, use); });
  const std::vector<ProcessGpus> all = gather_gpus(processes, own);
  processes.together([&] {
    const std::vector<GpuRange> ranges = share_gpus(std::span(all).first(static_cast<std::size_t>(num_computing)), use);
    o.gpus.joins_others = use == GpuUse::kExclusive;
    if (!o.trains) return;
    if (!computes) {
      // As the others, whether there is a GPU here or not.
      o.gpus.ignored = ranges.empty();
      o.gpus.count = 0;
    } else if (!ranges.empty()) {
      o.gpus = ranges[static_cast<std::size_t>(processes.rank())];
    }
  });
}

/// Everything that options alone decide, and what GPUs there are.
void check_options(const OptionSet& options, TrainOptions& o, const ProcessGroup& processes) {
  const int num_training = processes.size() - (o.last_rank_evaluates ? 1 : 0);
  if (is_async(o) && num_training > 1) apply_async_launch(options, o);
  check_launch(options, o, processes.size());
  check_train_options(options, o);
  if (o.train_dir.empty()) o.train_dir = default_train_dir(o);
}

}  // namespace

int run_train(int argc, char** argv) {
  ProcessGroup processes;
  const auto run = [&]() -> int {
    TrainOptions o;
    OptionSet options(kTrainUsage);
    declare_train_options(options, o);
    ParseResult parsed;
    processes.together([&] { parsed = read_options(argc, argv, options, o); });
    if (answer_questions("terngrad_train", options, parsed, processes)) return kExitSuccess;
    // First of all: what the ranks do together from here on depends on their options.
    require_same_on_all_ranks(processes, options.values(), {});
    apply_launch(o, {.rank = processes.rank(),
                     .num_processes = processes.size(),
                     .num_sharing = processes.num_sharing_processors()});
    find_gpus(o, processes);
    processes.together([&] { check_options(options, o, processes); });
    RunDescription description;
    description.command = "terngrad_train";
    description.arguments.assign(argv + 1, argv + argc);
    description.options = options.values();
    description.version = version();
    description.commit = commit();
    return take_part(o, std::move(description), processes);
  };
  return processes.run("terngrad_train", run, "; go on from the last checkpoint, if there is one, with --resume");
}

}  // namespace terngrad
