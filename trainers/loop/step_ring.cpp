#include "trainers/loop/step_ring.h"

#include <cstddef>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "trainers/loop/cuda/step_ring.h"

namespace terngrad {

StepRing::StepRing(int num_slots, int num_workers, const Stream& stream)
    : stream_(stream),
      step_(1, stream.device()),
      input_(1, stream.device()),
      counts_(1, stream.device()),
      inputs_(num_slots, stream.device()),
      records_(num_slots, stream.device()),
      workers_(std::int64_t{num_slots} * num_workers, stream.device()) {
  TERNGRAD_REQUIRE(num_slots >= 1 && num_workers >= 1, "[StepRing] needs at least one slot and one worker, got ",
                   num_slots, " and ", num_workers);
  fill_zero(counts_.span(), stream_);
}

cuda::StepRingMemory StepRing::memory() {
  return {.step = step_.data(),
          .input = input_.data(),
          .counts = counts_.data(),
          .inputs = inputs_.data(),
          .records = records_.data(),
          .workers = workers_.data(),
          .num_slots = static_cast<std::uint64_t>(num_slots()),
          .num_workers = static_cast<int>(workers_.num_elements() / num_slots())};
}

void StepRing::prepare(std::uint64_t first_step, std::span<const cuda::StepInput> inputs) {
  TERNGRAD_REQUIRE(inputs.size() <= static_cast<std::size_t>(num_slots()), "[StepRing] has ", num_slots(),
                   " slots, got ", inputs.size(), " steps");
  std::vector<cuda::StepInput> slots(static_cast<std::size_t>(num_slots()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slots[static_cast<std::size_t>((first_step + i) % slots.size())] = inputs[i];
  }
  copy<cuda::StepInput>(slots, inputs_.span(), stream_);
  copy<std::uint64_t>(std::span(&first_step, 1), step_.span(), stream_);
}

std::vector<StepOutcome> StepRing::outcomes(std::uint64_t first_step, int count) {
  std::vector<cuda::StepRecord> slots(static_cast<std::size_t>(num_slots()));
  std::vector<cuda::WorkerRecord> workers(static_cast<std::size_t>(workers_.num_elements()));
  copy<cuda::StepRecord>(records_.span(), std::span(slots), stream_);
  copy<cuda::WorkerRecord>(workers_.span(), std::span(workers), stream_);
  stream_.synchronize();
  const std::size_t num_workers = workers.size() / slots.size();
  std::vector<StepOutcome> outcomes;
  for (std::uint64_t step = first_step; step < first_step + static_cast<std::uint64_t>(count); ++step) {
    const auto slot = static_cast<std::size_t>(step % slots.size());
    StepOutcome& outcome = outcomes.emplace_back();
    outcome.counts = slots[slot].counts;
    outcome.skipped = slots[slot].skipped != 0;
    for (std::size_t worker = 0; worker < num_workers; ++worker) {
      const cuda::WorkerRecord& record = workers[slot * num_workers + worker];
      outcome.losses.push_back({.entropy_loss = record.loss, .num_correct = static_cast<int>(record.num_correct)});
    }
  }
  return outcomes;
}

void StepRing::submit_begin() { cuda::begin_step(memory(), stream_); }

void StepRing::submit_end(const WorkerLoss* losses, const std::uint32_t* skip) {
  cuda::end_step(memory(), losses, skip, stream_);
}

}  // namespace terngrad
