#include "trainers/hook.h"

#include <utility>

#include "kernels/errors.h"

namespace terngrad {
namespace {

class StepHook final : public Hook {
 public:
  StepHook(std::function<bool(std::uint64_t)> applies, StepFunction function)
      : applies_(std::move(applies)), function_(std::move(function)) {}
  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    return applies_(training.steps_done) ? function_(training, step) : HookVerdict::kContinue;
  }

 private:
  std::function<bool(std::uint64_t)> applies_;
  StepFunction function_;
};

}  // namespace

std::unique_ptr<Hook> every_steps(std::uint64_t n, StepFunction function) {
  TERNGRAD_REQUIRE(n >= 1, "[every_steps] n must be at least 1");
  return std::make_unique<StepHook>([n](std::uint64_t done) { return done % n == 0; }, std::move(function));
}

std::unique_ptr<Hook> at_step(std::uint64_t n, StepFunction function) {
  return std::make_unique<StepHook>([n](std::uint64_t done) { return done == n; }, std::move(function));
}

}  // namespace terngrad
