// State of the net of workers in several processes, brought together for checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Every worker's state (TrainingView::states), in order of workers; a collective call, which brings the slots up to
/// date too (RunServices::gather_slots). Nothing if the net has no state, in which case nothing is sent of it either.
/// @throws CommunicationError
std::vector<Buffer<float>> gather_states(const TrainingView& training);

/// What every worker keeps (TrainingView::memories), in order of workers, on rank 0 and nothing elsewhere; a collective
/// call where workers keep something. Rank 0 holds 4 bytes for each element and worker meanwhile.
/// @throws CommunicationError
std::vector<Buffer<float>> gather_memories(const TrainingView& training);

/// When the ranks gather: what every rank can tell by itself, whatever becomes of the checkpoint.
struct StateGatherTimes {
  std::uint64_t save_steps = 1;
  bool save_at_start = false;

  bool at_start(std::uint64_t steps_done) const { return save_at_start && steps_done == 0; }
  bool after_step(std::uint64_t steps_done) const { return steps_done % save_steps == 0; }
};

/// For ranks that save nothing themselves: sends their states at these times, and after the last step unless they were
/// sent then.
std::unique_ptr<Hook> make_state_sender_hook(const StateGatherTimes& times);

}  // namespace terngrad
