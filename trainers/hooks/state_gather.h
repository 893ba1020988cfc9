// Gathers states and memories of all processes' workers for checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Collective: gathers every worker's state (TrainingView::states) in order of workers, and calls
/// RunServices::gather_slots. Empty, without communication of states, if the net has no state.
/// @throws CommunicationError
std::vector<Buffer<float>> gather_states(const TrainingView& training);

/// Gathers every worker's memory (TrainingView::memories) in order of workers on rank 0; empty elsewhere. Collective if
/// there is a memory. Needs 4 bytes per element and worker on rank 0.
/// @throws CommunicationError
std::vector<Buffer<float>> gather_memories(const TrainingView& training);

/// Steps in which the ranks gather; every rank evaluates them by itself, even if saving fails on the chief.
struct StateGatherTimes {
  std::uint64_t save_steps = 1;
  bool save_at_start = false;

  bool at_start(std::uint64_t steps_done) const { return save_at_start && steps_done == 0; }
  bool after_step(std::uint64_t steps_done) const { return steps_done % save_steps == 0; }
};

/// For ranks other than the chief: sends their states in these steps, and after the last one if not sent then.
std::unique_ptr<Hook> make_state_sender_hook(const StateGatherTimes& times);

}  // namespace terngrad
