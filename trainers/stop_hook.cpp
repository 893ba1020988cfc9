#include "trainers/stop_hook.h"

#include <fmt/format.h>

#include <chrono>

#include "kernels/errors.h"

namespace terngrad {
namespace {

volatile std::sig_atomic_t received_signal = 0;

extern "C" void note_signal(int signal) {
  received_signal = signal;
  // Whoever asks twice does not want to wait for the end of a step.
  std::signal(signal, SIG_DFL);
}

class StopHook final : public Hook {
 public:
  StopHook(ProgressDisplay& display, double stop_after_seconds) : display_(display), seconds_(stop_after_seconds) {}

  void before_train(const TrainingView&) override { begin_ = std::chrono::steady_clock::now(); }

  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    if (training.steps_done == training.total_steps) return HookVerdict::kContinue;  // it ends anyway
    if (const int signal = StopSignals::received(); signal != 0) {
      display_.message(fmt::format("stopping after step {}: {}", training.steps_done, signal_name(signal)));
      return HookVerdict::kStop;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds_ == 0 || seconds < seconds_) return HookVerdict::kContinue;
    display_.message(fmt::format("stopping after step {}: {} seconds have passed", training.steps_done, seconds_));
    return HookVerdict::kStop;
  }

 private:
  ProgressDisplay& display_;
  double seconds_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  old_interrupt_ = std::signal(SIGINT, note_signal);
  old_terminate_ = std::signal(SIGTERM, note_signal);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, old_interrupt_);
  std::signal(SIGTERM, old_terminate_);
}

int StopSignals::received() { return received_signal; }

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "a signal";
  }
}

std::unique_ptr<Hook> make_stop_hook(ProgressDisplay& display, double stop_after_seconds) {
  TERNGRAD_REQUIRE(stop_after_seconds >= 0, "[make_stop_hook] stop_after_seconds must be 0 or more, got ",
                   stop_after_seconds);
  return std::make_unique<StopHook>(display, stop_after_seconds);
}

}  // namespace terngrad
