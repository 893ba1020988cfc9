#include "trainers/hook.h"

#include <utility>

#include "kernels/errors.h"

namespace terngrad {
namespace {

class StepHook final : public Hook {
 public:
  StepHook(std::function<bool(std::uint64_t)> applies, StepFunction function, HookRanks ranks)
      : applies_(std::move(applies)), function_(std::move(function)), ranks_(ranks) {}
  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    return applies_(training.steps_done) ? function_(training, step) : HookVerdict::kContinue;
  }
  bool on_every_rank() const override { return ranks_ == HookRanks::kEvery; }

 private:
  std::function<bool(std::uint64_t)> applies_;
  StepFunction function_;
  HookRanks ranks_;
};

}  // namespace

std::unique_ptr<Hook> every_steps(std::uint64_t n, StepFunction function, HookRanks ranks) {
  TERNGRAD_REQUIRE(n >= 1, "[every_steps] n must be at least 1");
  return std::make_unique<StepHook>([n](std::uint64_t done) { return done % n == 0; }, std::move(function), ranks);
}

std::unique_ptr<Hook> at_step(std::uint64_t n, StepFunction function, HookRanks ranks) {
  return std::make_unique<StepHook>([n](std::uint64_t done) { return done == n; }, std::move(function), ranks);
}

}  // namespace terngrad
