#include "trainers/hooks/step_profile.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class ProfileHook final : public Hook {
 public:
  explicit ProfileHook(StepProfile& profile) : profile_(profile) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    profile_.add(step);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }

 private:
  StepProfile& profile_;
};

}  // namespace

void StepProfile::add(const StepView& step) {
  TERNGRAD_REQUIRE(step.parts_are_timed, "[profile] the parts of step ", step.step, " are not timed");
  if (++num_seen_ <= kWarmUpSteps) return;
  step_seconds_ += step.step_seconds;
  parts_.add(step);
}

std::string StepProfile::to_text() const {
  if (num_steps() == 0) {
    return fmt::format("profile: no step was measured; the first {} of a process are left out\n", kWarmUpSteps);
  }
  const double steps = static_cast<double>(num_steps());
  std::string text = fmt::format("profile: {:.3f} ms per step, mean of {} (the first {} are left out)\n",
                                 1e3 * step_seconds_ / steps, num_steps(), kWarmUpSteps);
  const double rest = step_seconds_ - parts_.data - parts_.compute - parts_.exposed - parts_.update;
  for (const auto& [name, seconds] : {std::pair{"data", parts_.data},
                                      {"compute", parts_.compute},
                                      {"exposed exchange", parts_.exposed},
                                      {"update", parts_.update},
                                      {"the rest", rest},
                                      {"hidden exchange", parts_.hidden},
                                      {"- measure, encode", parts_.measure + parts_.encode},
                                      {"- wire", parts_.wire},
                                      {"- decode", parts_.decode}}) {
    fmt::format_to(std::back_inserter(text), "  {:<17} {:>10.3f} ms {:>6.1f} %\n", name, 1e3 * seconds / steps,
                   100 * seconds / step_seconds_);
  }
  return text;
}

std::unique_ptr<Hook> make_profile_hook(StepProfile& profile) { return std::make_unique<ProfileHook>(profile); }

}  // namespace terngrad
