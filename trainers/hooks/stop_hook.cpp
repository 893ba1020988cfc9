#include "trainers/hooks/stop_hook.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class StopHook final : public Hook {
 public:
  StopHook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display,
           std::function<std::string()> also_asked)
      : signal_(signal), seconds_(stop_after_seconds), display_(display), also_asked_(std::move(also_asked)) {}

  void before_train(const TrainingView&) override { begin_ = std::chrono::steady_clock::now(); }

  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    if (training.steps_done == training.total_steps) return HookVerdict::kContinue;    // the run ends anyway
    if (training.steps_done < training.steps_computed) return HookVerdict::kContinue;  // the run ends after these
    const std::string reason = reason_of(training);
    if (reason.empty()) return HookVerdict::kContinue;
    // Several ranks stop one step later, when all have agreed; show the step only then.
    if (training.stop_delay == 0 || training.stops_now) {
      display_.message(fmt::format("stopping after step {}: {}", training.steps_done, reason));
    }
    return HookVerdict::kStop;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
  // A launcher may send its signal to any rank.
  bool on_every_rank() const override { return true; }

 private:
  /// The reason to stop; empty for none.
  std::string reason_of(const TrainingView& training) const {
    if (const int signal = signal_.received(); signal != 0) {
      return fmt::format("{} (a second one stops at once, without saving)", signal_name(signal));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds_ > 0 && seconds >= seconds_) return fmt::format("{} seconds have passed", seconds_);
    if (also_asked_) {
      if (std::string reason = also_asked_(); !reason.empty()) return reason;
    }
    return training.stops_now ? "another process of the run was asked to" : "";
  }

  const StopSignal& signal_;
  double seconds_;
  ProgressDisplay& display_;
  std::function<std::string()> also_asked_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

std::unique_ptr<Hook> make_stop_hook(const StopSignal& signal, double stop_after_seconds, ProgressDisplay& display,
                                     std::function<std::string()> also_asked) {
  TERNGRAD_REQUIRE(stop_after_seconds >= 0, "[make_stop_hook] stop_after_seconds must be 0 or more, got ",
                   stop_after_seconds);
  return std::make_unique<StopHook>(signal, stop_after_seconds, display, std::move(also_asked));
}

}  // namespace terngrad
