#include "trainers/hooks/evaluator_watch.h"

#include <fmt/format.h>

#include <utility>

namespace terngrad {
namespace {

double seconds_between(EvaluatorWatch::Clock::time_point begin, EvaluatorWatch::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class EvaluatorWatchHook final : public Hook {
 public:
  EvaluatorWatchHook(double timeout_seconds, std::string name, ProgressDisplay& display,
                     std::function<std::uint64_t()> num_beats)
      : timeout_seconds_(timeout_seconds),
        name_(std::move(name)),
        display_(display),
        num_beats_(std::move(num_beats)),
        watch_(timeout_seconds) {}

  // Restart the timeout, as opening the data since the construction may have taken long.
  void before_train(const TrainingView&) override { watch_ = EvaluatorWatch(timeout_seconds_); }

  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    switch (watch_.look(num_beats_())) {
      case EvaluatorWatch::Change::kMissing:
        display_.message(fmt::format(
            "warning: step {}: {}, which evaluates, has given no sign of life for {} seconds: it hangs or is gone; "
            "training continues, checkpoints are not evaluated",
            training.steps_done, name_, timeout_seconds_));
        break;
      case EvaluatorWatch::Change::kBack:
        display_.message(fmt::format("step {}: {}, which evaluates, is back", training.steps_done, name_));
        break;
      case EvaluatorWatch::Change::kNone:
        break;
    }
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }

 private:
  double timeout_seconds_;
  std::string name_;
  ProgressDisplay& display_;
  std::function<std::uint64_t()> num_beats_;
  EvaluatorWatch watch_;
};

}  // namespace

EvaluatorWatch::EvaluatorWatch(double timeout_seconds, Clock::time_point now)
    : timeout_seconds_(timeout_seconds), last_beat_(now) {}

EvaluatorWatch::Change EvaluatorWatch::look(std::uint64_t num_beats, Clock::time_point now) {
  if (num_beats != num_beats_) {
    num_beats_ = num_beats;
    last_beat_ = now;
    doubted_since_ = Clock::time_point::max();
    return std::exchange(is_missing_, false) ? Change::kBack : Change::kNone;
  }
  if (is_missing_ || seconds_between(last_beat_, now) <= timeout_seconds_) return Change::kNone;
  if (doubted_since_ == Clock::time_point::max()) doubted_since_ = now;
  if (seconds_between(doubted_since_, now) < timeout_seconds_ / 4) return Change::kNone;
  is_missing_ = true;
  return Change::kMissing;
}

std::unique_ptr<Hook> make_evaluator_watch_hook(double timeout_seconds, std::string name, ProgressDisplay& display,
                                                std::function<std::uint64_t()> num_beats) {
  return std::make_unique<EvaluatorWatchHook>(timeout_seconds, std::move(name), display, std::move(num_beats));
}

}  // namespace terngrad
