#include "trainers/hooks/progress_hook.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compress/route/wire_bytes.h"
#include "trainers/hooks/interval.h"

namespace terngrad {
namespace {

/// Sets the exchange fields of the progress line; unset if no bytes were exchanged.
void show_bytes(const TrainingView& training, const ExchangeBytes& bytes, ProgressState& state) {
  state.sent_bytes_per_step = state.received_bytes_per_step = state.compression_ratio = std::nullopt;
  const NodeBytes busiest = bytes_of_busiest(bytes);
  if (busiest.busier() == 0) return;
  if (training.workers_per_group > 1) state.sender = "group";
  if (servers_are_busier(bytes)) state.sender = "server";
  state.sent_bytes_per_step = busiest.sent;
  state.received_bytes_per_step = busiest.received;
  const std::int64_t exchanged = training.net.layout().num_elements() - num_frozen_elements(training);
  state.compression_ratio = wire_ratio(bytes, exchanged, num_senders(training));
}

/// Text about the action for a step with NaN or infinity.
const char* what_was_done(const StepView& step) {
  if (step.pushes != nullptr && step.pushes->skipped > 0) return "; the push is dropped";
  return step.report.skipped ? "; the step is skipped" : "; counted as zero";
}

class ProgressHook final : public Hook {
 public:
  ProgressHook(ProgressDisplay& display, std::uint64_t log_steps) : display_(display), log_steps_(log_steps) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (!step.report.nonfinite.empty() && !std::exchange(has_told_, true)) {
      display_.message(step.report.nonfinite + what_was_done(step));
    }
    had_nonfinite_ = had_nonfinite_ || !step.report.nonfinite.empty();
    interval_.add(training, step);
    skipped_steps_ += step.report.skipped ? 1u : 0u;
    if (!step.report.skipped) bytes_ = step.report;
    // Mean over about the last 50 steps, so that the live line is readable.
    seconds_per_step_ =
        seconds_per_step_ == 0 ? step.step_seconds : seconds_per_step_ + (step.step_seconds - seconds_per_step_) / 50;
    loss_ = shown_ == 0 ? step.loss : loss_ + (step.loss - loss_) / 50;
    accuracy_ = shown_ == 0 ? step.accuracy : accuracy_ + (step.accuracy - accuracy_) / 50;
    // Not the first step, which also waits for the pipeline to start.
    if (shown_ > 0) {
      seconds_ += step.step_seconds;
      data_seconds_ += step.data_seconds;
    }
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
      state.loss = Interval::mean_of(interval.loss, interval.steps);
      state.accuracy = Interval::mean_of(interval.accuracy, interval.steps);
      state.examples_per_second = interval.examples_per_second(static_cast<std::uint64_t>(training.batch_size));
      show_bytes(training, interval.bytes, state);
      display_.log(state);
      warn_of_slow_data();
    }
    return HookVerdict::kContinue;
  }
  void after_train(const TrainingView& training) override {
    display_.finish();
    if (skipped_steps_ == 0) return;
    const std::uint64_t before = training.steps_done - shown_;
    display_.message(fmt::format("{} of {} steps{} were skipped{}", skipped_steps_, shown_,
                                 before > 0 ? fmt::format(" after step {}", before) : "",
                                 had_nonfinite_ ? ": a gradient or the mean was not finite" : ""));
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
  void restore_state(const std::map<std::string, std::string>& entries) override { interval_ = interval_of(entries); }

 private:
  void warn_of_slow_data() {
    if (seconds_ < kMinSeconds || data_seconds_ <= kMaxDataPart * seconds_ || std::exchange(has_told_of_data_, true)) {
      return;
    }
    display_.message(
        fmt::format("steps wait for examples for {:.0f} % of their time: --num_preprocess_threads may be too "
                    "low, or the storage too slow",
                    100 * data_seconds_ / seconds_));
  }

  // Limits of the message about waiting for examples: fraction of the time, and minimum time observed.
  static constexpr double kMaxDataPart = 0.1;
  static constexpr double kMinSeconds = 10;

  ProgressDisplay& display_;
  std::uint64_t log_steps_;
  Interval interval_;
  ExchangeBytes bytes_;    // bytes of the last step that was not skipped
  bool has_told_ = false;  // a non-finite gradient of this interval was reported
  bool had_nonfinite_ = false;
  std::uint64_t skipped_steps_ = 0;
  std::uint64_t shown_ = 0;
  double seconds_per_step_ = 0;
  double seconds_ = 0;       // all shown steps except for the first
  double data_seconds_ = 0;  // time of these steps spent waiting for examples
  bool has_told_of_data_ = false;
  double loss_ = 0;
  double accuracy_ = 0;
};

}  // namespace

std::unique_ptr<Hook> make_progress_hook(ProgressDisplay& display, std::uint64_t log_steps) {
  return std::make_unique<ProgressHook>(display, log_steps);
}

}  // namespace terngrad
