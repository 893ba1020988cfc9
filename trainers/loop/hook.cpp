#include "trainers/loop/hook.h"

#include <utility>

#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class StepHook final : public Hook {
 public:
  /// @param next  returns the next number of steps after which the function is called
  StepHook(std::function<std::uint64_t(std::uint64_t)> next, StepFunction function, HookRanks ranks)
      : next_(std::move(next)), function_(std::move(function)), ranks_(ranks) {}
  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    const bool applies = next_(training.steps_done - 1) == training.steps_done;
    return applies ? function_(training, step) : HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override { return next_(steps_done); }
  bool on_every_rank() const override { return ranks_ == HookRanks::kEvery; }

 private:
  std::function<std::uint64_t(std::uint64_t)> next_;
  StepFunction function_;
  HookRanks ranks_;
};

}  // namespace

std::int64_t num_frozen_elements(const TrainingView& training) {
  std::int64_t count = 0;
  for (std::size_t segment = 0; segment < training.frozen.size(); ++segment) {
    if (training.frozen[segment]) count += training.net.layout().segment(static_cast<int>(segment)).num_elements;
  }
  return count;
}

std::function<TensorTelemetry(int segment)> telemetry_of(
    std::function<std::span<const float>(int segment)> gradient,
    std::function<std::span<const float>(int segment)> encoded,
    std::function<float(int segment, std::span<float> out)> decode_sent) {
  return [gradient = std::move(gradient), encoded = std::move(encoded),
          decode_sent = std::move(decode_sent)](int segment) {
    const std::span<const float> compensated = encoded ? encoded(segment) : std::span<const float>{};
    const std::span<const float> of_message = compensated.empty() ? gradient(segment) : compensated;
    std::vector<float> sent(of_message.size());
    const float scaler = decode_sent(segment, sent);
    TensorTelemetry result = compare_with_sent(of_message, sent, static_cast<double>(scaler));
    const double norm = compensated.empty() ? 0 : norm_of(gradient(segment));
    if (norm > 0) result.residual_norm = result.error_norm / norm;
    return result;
  };
}

TrainingView::Memories memories_of(WorkerMemory* memory) {
  TrainingView::Memories kept;
  if (memory == nullptr) return kept;
  kept.name = memory->name();
  kept.layout = &memory->layout();
  for (int worker = 0; worker < memory->num_local_workers(); ++worker) kept.of_workers.push_back(memory->state(worker));
  return kept;
}

TrainingView::Shared shared_state_of(SharedState& shared, std::span<float> values) {
  if (shared.layout().num_segments() == 0) return {};
  return {&shared.layout(), values.empty() ? shared.values() : values};
}

std::unique_ptr<Hook> every_steps(std::uint64_t n, StepFunction function, HookRanks ranks) {
  TERNGRAD_REQUIRE(n >= 1, "[every_steps] n must be at least 1");
  return std::make_unique<StepHook>([n](std::uint64_t done) { return next_multiple(n, done); }, std::move(function),
                                    ranks);
}

std::unique_ptr<Hook> before_step(std::uint64_t n, std::function<void(TrainingControl&)> change) {
  class ChangeHook final : public Hook {
   public:
    ChangeHook(std::uint64_t n, std::function<void(TrainingControl&)> change) : n_(n), change_(std::move(change)) {}
    void before_step(TrainingControl& control) override { change_(control); }
    std::uint64_t next_change_step(std::uint64_t steps_done) const override {
      return n_ >= steps_done ? n_ : kNoSyncStep;
    }
    std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
    bool on_every_rank() const override { return true; }

   private:
    std::uint64_t n_;
    std::function<void(TrainingControl&)> change_;
  };
  return std::make_unique<ChangeHook>(n, std::move(change));
}

std::unique_ptr<Hook> at_step(std::uint64_t n, StepFunction function, HookRanks ranks) {
  return std::make_unique<StepHook>([n](std::uint64_t done) { return done < n ? n : kNoSyncStep; }, std::move(function),
                                    ranks);
}

}  // namespace terngrad
