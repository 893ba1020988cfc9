#include "trainers/step_ring.h"

#include <cstddef>

#include "kernels/copy.h"
#include "kernels/errors.h"

namespace terngrad {

StepRing::StepRing(int num_slots, const Stream& stream)
    : stream_(stream),
      step_(1, stream.device()),
      input_(1, stream.device()),
      counters_(1, stream.device()),
      inputs_(num_slots, stream.device()),
      records_(num_slots, stream.device()) {
  TERNGRAD_REQUIRE(num_slots >= 1, "[StepRing] needs at least one slot, got ", num_slots);
  fill_zero(counters_.span(), stream_);
}

cuda::StepRingMemory StepRing::memory() {
  return {.step = step_.data(),
          .input = input_.data(),
          .counters = counters_.data(),
          .inputs = inputs_.data(),
          .records = records_.data(),
          .num_slots = static_cast<std::uint64_t>(num_slots())};
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

std::vector<cuda::StepRecord> StepRing::records(std::uint64_t first_step, int count) {
  std::vector<cuda::StepRecord> slots(static_cast<std::size_t>(num_slots()));
  copy<cuda::StepRecord>(records_.span(), std::span(slots), stream_);
  stream_.synchronize();
  std::vector<cuda::StepRecord> records;
  for (std::uint64_t step = first_step; step < first_step + static_cast<std::uint64_t>(count); ++step) {
    records.push_back(slots[static_cast<std::size_t>(step % slots.size())]);
  }
  return records;
}

void StepRing::submit_begin() { cuda::begin_step(memory(), stream_); }

void StepRing::submit_end(const WorkerLoss* losses, int num_workers, const std::uint32_t* skip) {
  cuda::end_step(memory(), losses, num_workers, skip, stream_);
}

}  // namespace terngrad
