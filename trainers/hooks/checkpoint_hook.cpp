#include "trainers/hooks/checkpoint_hook.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "compress/exchange/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "trainers/hooks/net_state.h"

namespace terngrad {
namespace {

/// The first word of an interval's text; versions before had none.
constexpr const char* kIntervalVersion = "v2";

double mean_of(double sum, std::uint64_t count) { return sum / static_cast<double>(std::max<std::uint64_t>(count, 1)); }

double examples_per_second(const TrainingView& training, const Interval& interval) {
  return static_cast<double>(training.batch_size) * static_cast<double>(interval.timed_steps) / interval.seconds;
}

/// What the progress line says of exchanges; nothing of no bytes.
void show_bytes(const TrainingView& training, const ExchangeBytes& bytes, ProgressState& state) {
  state.sent_bytes_per_step = state.received_bytes_per_step = state.compression_ratio = std::nullopt;
  const NodeBytes busiest = bytes_of_busiest(bytes);
  if (busiest.busier() == 0) return;
  state.is_server = servers_are_busier(bytes);
  state.sent_bytes_per_step = busiest.sent;
  state.received_bytes_per_step = busiest.received;
  state.compression_ratio = wire_ratio(bytes, training.net.layout().num_elements(), training.num_workers);
}

/// A number of each leg, per node and step.
nlohmann::ordered_json legs_of(const ExchangeBytes& bytes, std::int64_t LegBytes::*direction) {
  const auto mean = [&](const LegBytes& leg) {
    return static_cast<double>(leg.*direction) / static_cast<double>(std::max<std::int64_t>(bytes.num_workers, 1));
  };
  return {{"scalers", mean(bytes.scalers)}, {"gradient", mean(bytes.gradient)}, {"mean", mean(bytes.mean)}};
}

void write_bytes(const TrainingView& training, const ExchangeBytes& bytes, nlohmann::ordered_json& line) {
  if (bytes_of_busiest(bytes).busier() == 0) return;
  line["wire_bytes_per_worker"] = {{"sent", legs_of(bytes, &LegBytes::sent)},
                                   {"received", legs_of(bytes, &LegBytes::received)}};
  if (bytes.num_servers > 0) {
    const NodeBytes server = bytes_per_server(bytes);
    line["wire_bytes_per_server"] = {{"sent", server.sent}, {"received", server.received}};
  }
  if (const auto ratio = wire_ratio(bytes, training.net.layout().num_elements(), training.num_workers)) {
    line["wire_ratio"] = *ratio;
  }
}

/// About a step with NaN or infinity.
const char* what_was_done(const StepView& step) {
  if (step.pushes != nullptr && step.pushes->skipped > 0) return "; the push is dropped";
  return step.report.skipped ? "; the step is skipped" : "; counted as zero";
}

class ProgressHook final : public Hook {
 public:
  ProgressHook(ProgressDisplay& display, std::uint64_t log_steps, Interval begun)
      : display_(display), log_steps_(log_steps), interval_(std::move(begun)) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (!step.report.nonfinite.empty() && !std::exchange(has_told_, true)) {
      display_.message(step.report.nonfinite + what_was_done(step));
    }
    interval_.add(step);
    skipped_steps_ += step.report.skipped ? 1u : 0u;
    if (!step.report.skipped) bytes_ = step.report;
    // The mean over about the last 50 steps, so that the live line is readable.
    seconds_per_step_ =
        seconds_per_step_ == 0 ? step.step_seconds : seconds_per_step_ + (step.step_seconds - seconds_per_step_) / 50;
    loss_ = shown_ == 0 ? step.loss : loss_ + (step.loss - loss_) / 50;
    accuracy_ = shown_ == 0 ? step.accuracy : accuracy_ + (step.accuracy - accuracy_) / 50;
    ++shown_;
    ProgressState state;
    state.step = static_cast<std::int64_t>(training.steps_done);
    state.total_steps = static_cast<std::int64_t>(training.total_steps);
    state.skipped_steps = static_cast<std::int64_t>(interval_.skipped_steps);
    show_bytes(training, bytes_, state);
    state.loss = loss_;
    state.accuracy = accuracy_;
    state.examples_per_second = static_cast<double>(training.batch_size) / seconds_per_step_;
    state.seconds_left = seconds_per_step_ * static_cast<double>(training.total_steps - training.steps_done);
    display_.update(state);
    if (training.steps_done % log_steps_ == 0 || training.steps_done == training.total_steps) {
      const Interval interval = std::exchange(interval_, {});
      has_told_ = false;
      state.loss = mean_of(interval.loss, interval.steps);
      state.accuracy = mean_of(interval.accuracy, interval.steps);
      state.examples_per_second = examples_per_second(training, interval);
      show_bytes(training, interval.bytes, state);
      display_.log(state);
    }
    return HookVerdict::kContinue;
  }
  void after_train(const TrainingView& training) override {
    display_.finish();
    if (skipped_steps_ == 0) return;
    const std::uint64_t before = training.steps_done - shown_;
    display_.message(fmt::format("{} of {} steps{} were skipped: a gradient or the mean was not finite", skipped_steps_,
                                 shown_, before > 0 ? fmt::format(" after step {}", before) : ""));
  }
  std::uint64_t next_look(std::uint64_t) const override { return kNoLook; }

 private:
  ProgressDisplay& display_;
  std::uint64_t log_steps_;
  Interval interval_;
  ExchangeBytes bytes_;    // of the last step that was not skipped
  bool has_told_ = false;  // of a gradient of this interval that was not finite
  std::uint64_t skipped_steps_ = 0;
  std::uint64_t shown_ = 0;
  double seconds_per_step_ = 0;
  double loss_ = 0;
  double accuracy_ = 0;
};

class MetricsHook final : public Hook {
 public:
  MetricsHook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps, Interval& interval)
      : writer_(writer), log_steps_(log_steps), telemetry_steps_(telemetry_steps), interval_(interval) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    interval_.add(step);
    if (training.steps_done % log_steps_ == 0 || training.steps_done == training.total_steps)
      write_train(training, step);
    if (telemetry_steps_ != 0 && training.steps_done % telemetry_steps_ == 0) write_tensors(training, step);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_look(std::uint64_t steps_done) const override {
    return next_multiple(telemetry_steps_, steps_done);
  }

 private:
  void write_train(const TrainingView& training, const StepView& step) {
    const Interval interval = std::exchange(interval_, {});
    nlohmann::ordered_json line;
    line["step"] = training.steps_done;
    line["kind"] = "train";
    line["loss"] = mean_of(interval.loss, interval.steps);
    line["accuracy"] = mean_of(interval.accuracy, interval.steps);
    line["learning_rate"] = step.learning_rate;
    line["skipped_steps"] = interval.skipped_steps;
    line["nonfinite_steps"] = interval.nonfinite_steps;
    line["zeroed_elements"] = interval.transform_counts.zeroed_elements;
    line["clipped_gradients"] = interval.transform_counts.clipped_gradients;
    if (interval.pushes.total() > 0) {
      nlohmann::ordered_json histogram = nlohmann::ordered_json::object();
      for (const auto& [staleness, pushes] : interval.pushes.staleness) histogram[std::to_string(staleness)] = pushes;
      line["staleness"] = std::move(histogram);
      line["mean_staleness"] = interval.pushes.mean_staleness();
      line["dropped_pushes"] = interval.pushes.dropped;
      line["skipped_pushes"] = interval.pushes.skipped;
    }
    write_bytes(training, interval.bytes, line);
    line["examples_per_second"] = examples_per_second(training, interval);
    if (interval.steps_with_parts > 0) {
      const auto per_step = [&](double seconds) { return mean_of(seconds, interval.steps_with_parts); };
      line["data_seconds"] = per_step(interval.parts.data);
      line["compute_seconds"] = per_step(interval.parts.compute);
      line["measure_seconds"] = per_step(interval.parts.measure);
      line["encode_seconds"] = per_step(interval.parts.encode);
      line["wire_seconds"] = per_step(interval.parts.wire);
      line["decode_seconds"] = per_step(interval.parts.decode);
      line["hidden_seconds"] = per_step(interval.parts.hidden);
      line["exposed_seconds"] = per_step(interval.parts.exposed);
      line["update_seconds"] = per_step(interval.parts.update);
    }
    writer_.write(line);
  }

  void write_tensors(const TrainingView& training, const StepView& step) {
    if (step.report.skipped) return;
    nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
    for (int segment = 0; segment < training.net.layout().num_segments(); ++segment) {
      const TensorTelemetry t = step.telemetry(segment);
      tensors[training.net.layout().segment(segment).name] = {{"scaler", t.scaler},
                                                              {"zero_fraction", t.zero_fraction},
                                                              {"clip_fraction", t.clip_fraction},
                                                              {"kept_norm", t.kept_norm},
                                                              {"snr_db", t.snr_db},
                                                              {"norm", t.norm},
                                                              {"max_abs", t.max_abs}};
    }
    writer_.write({{"step", training.steps_done}, {"kind", "tensors"}, {"tensors", tensors}});
  }

  MetricsWriter& writer_;
  std::uint64_t log_steps_;
  std::uint64_t telemetry_steps_;
  Interval& interval_;
};

}  // namespace

void Interval::add(const StepView& step) {
  ++steps;
  loss += step.loss;
  accuracy += step.accuracy;
  skipped_steps += step.report.skipped ? 1u : 0u;
  nonfinite_steps += step.report.nonfinite.empty() ? 0u : 1u;
  transform_counts += step.transform_counts;
  if (!step.report.skipped) bytes += step.report;
  if (step.pushes != nullptr) pushes += *step.pushes;
  ++timed_steps;
  seconds += step.step_seconds;
  if (!step.parts_are_timed) return;
  ++steps_with_parts;
  parts.add(step);
}

std::string Interval::to_text() const {
  // Bit patterns, because sums that go on must be the very same.
  std::string text =
      fmt::format("{} {} {:016x} {:016x} {} {} {} {}", kIntervalVersion, steps, std::bit_cast<std::uint64_t>(loss),
                  std::bit_cast<std::uint64_t>(accuracy), skipped_steps, nonfinite_steps,
                  transform_counts.zeroed_elements, transform_counts.clipped_gradients);
  for (const LegBytes& leg : {bytes.scalers, bytes.gradient, bytes.mean, bytes.servers}) {
    text += fmt::format(" {} {}", leg.sent, leg.received);
  }
  text += fmt::format(" {} {}", bytes.num_workers, bytes.num_servers);
  return pushes.total() > 0 ? text + " " + pushes.to_text() : text;
}

Interval parse_interval(const std::string& text) {
  std::istringstream words(text);
  const bool has_version = text.starts_with(kIntervalVersion);
  if (std::string version; has_version) words >> version;
  Interval interval;
  std::uint64_t loss = 0;
  std::uint64_t accuracy = 0;
  words >> interval.steps >> std::hex >> loss >> accuracy >> std::dec >> interval.skipped_steps >>
      interval.nonfinite_steps >> interval.transform_counts.zeroed_elements >>
      interval.transform_counts.clipped_gradients;
  interval.loss = std::bit_cast<double>(loss);
  interval.accuracy = std::bit_cast<double>(accuracy);
  ExchangeBytes& bytes = interval.bytes;
  for (LegBytes* leg : {&bytes.scalers, &bytes.gradient, &bytes.mean}) words >> leg->sent >> leg->received;
  if (has_version) words >> bytes.servers.sent >> bytes.servers.received >> bytes.num_workers >> bytes.num_servers;
  const bool is_complete = static_cast<bool>(words);
  if (std::string counts; words >> counts) interval.pushes = parse_push_counts(counts);
  words >> std::ws;
  const bool is_sound = is_complete && words.eof() && (!has_version || interval.to_text() == text);
  if (!is_sound) TERNGRAD_THROW(DataError, kIntervalKey, " is '", text, "'");
  if (!has_version) bytes = {};
  return interval;
}

std::unique_ptr<Hook> make_progress_hook(ProgressDisplay& display, std::uint64_t log_steps, const Interval& begun) {
  return std::make_unique<ProgressHook>(display, log_steps, begun);
}

std::unique_ptr<Hook> make_metrics_hook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps,
                                        Interval& interval) {
  return std::make_unique<MetricsHook>(writer, log_steps, telemetry_steps, interval);
}

EvaluationHook::EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                               std::uint64_t eval_steps, int num_threads)
    : dataset_(std::move(dataset)),
      writer_(writer),
      display_(display),
      eval_steps_(eval_steps),
      num_threads_(num_threads) {}

void EvaluationHook::before_train(const TrainingView& training) {
  const bool is_due = eval_steps_ != 0 && training.steps_done > 0 && training.steps_done % eval_steps_ == 0;
  if (is_due && evaluated_ != training.steps_done) run(training);
}

HookVerdict EvaluationHook::after_step(const TrainingView& training, const StepView&) {
  if (eval_steps_ != 0 && training.steps_done % eval_steps_ == 0) run(training);
  return HookVerdict::kContinue;
}

std::uint64_t EvaluationHook::next_look(std::uint64_t steps_done) const {
  return next_multiple(eval_steps_, steps_done);
}

void EvaluationHook::after_train(const TrainingView& training) {
  if (training.steps_done == training.total_steps && evaluated_ != training.steps_done) run(training);
}

void EvaluationHook::run(const TrainingView& training) {
  // The other ranks may be in the next step, waiting.
  const auto tell_busy = [&] {
    if (training.tell_busy) training.tell_busy();
  };
  const Evaluation averaged =
      evaluate(training.net, training.ema, training.ema_state, *dataset_, num_threads_, tell_busy);
  evaluated_ = training.steps_done;
  writer_.write({{"step", training.steps_done},
                 {"kind", "test"},
                 {"weights", "ema"},
                 {"top1", averaged.top1},
                 {"top5", averaged.top5},
                 {"loss", averaged.loss},
                 {"examples", averaged.num_examples}});
  display_.message("step " + std::to_string(training.steps_done) + " test " + to_string(averaged));
}

CheckpointHook::CheckpointHook(CheckpointHookOptions options, CheckpointState state, std::function<void()> sync_reports,
                               const Interval& interval, ProgressDisplay& display)
    : options_(std::move(options)),
      state_(std::move(state)),
      sync_reports_(std::move(sync_reports)),
      interval_(interval),
      display_(display) {}

StateGatherTimes CheckpointHook::gather_times() const {
  return {.save_steps = options_.save_steps, .save_at_start = options_.save_at_start};
}

std::span<const Buffer<float>> CheckpointHook::states_of(const TrainingView& training) {
  if (gathered_ != training.steps_done) states_ = gather_states(training);
  gathered_ = training.steps_done;
  return states_;
}

void CheckpointHook::before_train(const TrainingView& training) {
  if (gather_times().at_start(training.steps_done)) save(training);
}

HookVerdict CheckpointHook::after_step(const TrainingView& training, const StepView&) {
  if (!gather_times().after_step(training.steps_done)) return HookVerdict::kContinue;
  if (options_.on_error == OnSaveError::kStop) {
    save(training);
    return HookVerdict::kContinue;
  }
  try {
    save(training);
  } catch (const DataError& error) {
    const auto before = latest_checkpoint(options_.folder);
    display_.message("step " + std::to_string(training.steps_done) + ": " + error.what() + "; training goes on, " +
                     (before ? before->path.string() + " is intact" : "no checkpoint is saved yet"));
  }
  return HookVerdict::kContinue;
}

std::uint64_t CheckpointHook::next_look(std::uint64_t steps_done) const {
  return next_multiple(options_.save_steps, steps_done);
}

void CheckpointHook::after_train(const TrainingView& training) {
  if (saved_ != training.steps_done) save(training);
}

void CheckpointHook::save(const TrainingView& training) {
  // First, because the other ranks send theirs whatever becomes of the save.
  const std::span<const Buffer<float>> states = states_of(training);
  sync_reports_();
  CheckpointView view;
  view.state = state_;
  view.state.step = training.steps_done;
  for (const auto& [name, value] : training.optimizer_state) view.state.more[name] = value;
  if (interval_.steps > 0) view.state.more[kIntervalKey] = interval_.to_text();
  view.layout = &training.net.layout();
  for (const auto& [name, value] : training.more_state) view.state.more[name] = value;
  for (const auto& [name, values] : training.more_tensors) view.groups.push_back({name, values});
  view.groups.push_back({"parameters", training.parameters});
  view.groups.push_back({"ema", training.ema});
  for (const Optimizer::Slot& slot : training.slots) view.groups.push_back({"slots/" + slot.name, slot.values});
  std::ranges::move(state_groups(training, states), std::back_inserter(view.groups));
  save_checkpoint(options_.folder, view, options_.keep_last);
  saved_ = training.steps_done;
}

}  // namespace terngrad
