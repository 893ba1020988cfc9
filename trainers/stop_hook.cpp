#include "trainers/stop_hook.h"

#include <fmt/format.h>

#include <chrono>

#include "kernels/errors.h"

namespace terngrad {
namespace {

class StopHook final : public Hook {
 public:
  StopHook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display)
      : signal_(signal), seconds_(stop_after_seconds), display_(display) {}

  void before_train(const TrainingView&) override { begin_ = std::chrono::steady_clock::now(); }

  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    const std::uint64_t last_step = training.steps_done + training.stop_delay;
    if (last_step >= training.total_steps) return HookVerdict::kContinue;              // it ends anyway
    if (training.steps_done < training.steps_computed) return HookVerdict::kContinue;  // it ends after these
    if (const int signal = signal_.received(); signal != 0) {
      display_.message(fmt::format("stopping after step {}: {}", last_step, signal_name(signal)));
      return HookVerdict::kStop;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds_ == 0 || seconds < seconds_) return HookVerdict::kContinue;
    display_.message(fmt::format("stopping after step {}: {} seconds have passed", last_step, seconds_));
    return HookVerdict::kStop;
  }
  std::uint64_t next_look(std::uint64_t) const override { return kNever; }
  // The signal of a launcher that ends a run may come to any of them.
  bool on_every_rank() const override { return true; }

 private:
  const StopSignal& signal_;
  double seconds_;
  ProgressDisplay& display_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

std::unique_ptr<Hook> make_stop_hook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display) {
  TERNGRAD_REQUIRE(stop_after_seconds >= 0, "[make_stop_hook] stop_after_seconds must be 0 or more, got ",
                   stop_after_seconds);
  return std::make_unique<StopHook>(signal, stop_after_seconds, display);
}

}  // namespace terngrad
