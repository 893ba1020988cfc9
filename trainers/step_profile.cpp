#include "trainers/step_profile.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "kernels/errors.h"

namespace terngrad {
namespace {

class ProfileHook final : public Hook {
 public:
  explicit ProfileHook(StepProfile& profile) : profile_(profile) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    profile_.add(step);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_look(std::uint64_t) const override { return kNoLook; }

 private:
  StepProfile& profile_;
};

}  // namespace

void StepProfile::add(const StepView& step) {
  TERNGRAD_REQUIRE(step.parts_are_timed, "[profile] the parts of step ", step.step, " are not timed");
  if (++num_seen_ <= kWarmUpSteps) return;
  step_ += step.step_seconds;
  data_ += step.data_seconds;
  compute_ += step.compute_seconds;
  encode_ += step.report.measure_seconds + step.report.encode_seconds;
  wire_ += step.report.wire_seconds;
  decode_ += step.report.decode_seconds;
  update_ += step.update_seconds;
  hidden_ += step.hidden_seconds;
  exposed_ += step.exposed_seconds;
}

std::string StepProfile::to_text() const {
  if (num_steps() == 0) {
    return fmt::format("profile: no step was measured; the first {} of a process are left out\n", kWarmUpSteps);
  }
  const double steps = static_cast<double>(num_steps());
  std::string text = fmt::format("profile: {:.3f} ms per step, mean of {} (the first {} are left out)\n",
                                 1e3 * step_ / steps, num_steps(), kWarmUpSteps);
  const double rest = step_ - data_ - compute_ - exposed_ - update_;
  for (const auto& [name, seconds] : {std::pair{"data", data_},
                                      {"compute", compute_},
                                      {"exposed exchange", exposed_},
                                      {"update", update_},
                                      {"the rest", rest},
                                      {"hidden exchange", hidden_},
                                      {"- measure, encode", encode_},
                                      {"- wire", wire_},
                                      {"- decode", decode_}}) {
    fmt::format_to(std::back_inserter(text), "  {:<17} {:>10.3f} ms {:>6.1f} %\n", name, 1e3 * seconds / steps,
                   100 * seconds / step_);
  }
  return text;
}

std::unique_ptr<Hook> make_profile_hook(StepProfile& profile) { return std::make_unique<ProfileHook>(profile); }

}  // namespace terngrad
