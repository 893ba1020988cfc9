#include "trainers/hooks/freeze_hook.h"

#include <utility>

#include "trainers/loop/training_control.h"

namespace terngrad {
namespace {

class FreezeHook final : public Hook {
 public:
  FreezeHook(std::vector<std::string> patterns, std::uint64_t until) : patterns_(std::move(patterns)), until_(until) {}

  void before_step(TrainingControl& control) override {
    const bool freezes = until_ == 0 || control.steps_done() < until_;
    for (const std::string& pattern : patterns_) {
      if (freezes) {
        control.freeze(pattern);
      } else if (has_begun_) {
        control.thaw(pattern);
      }
    }
    has_begun_ = true;
  }
  std::uint64_t next_change_step(std::uint64_t steps_done) const override {
    if (!has_begun_) return steps_done;
    return until_ >= steps_done && until_ != 0 ? until_ : kNoSyncStep;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
  bool on_every_rank() const override { return true; }

 private:
  std::vector<std::string> patterns_;
  std::uint64_t until_;
  bool has_begun_ = false;  // in this process: a resumed run begins anew
};

}  // namespace

std::unique_ptr<Hook> make_freeze_hook(std::vector<std::string> patterns, std::uint64_t until) {
  return std::make_unique<FreezeHook>(std::move(patterns), until);
}

}  // namespace terngrad
