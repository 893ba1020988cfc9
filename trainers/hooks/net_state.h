// Saves and restores nets' states (moving statistics), workers' memories and what all ranks keep alike in checkpoints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "nets/net.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

class Trainer;
struct TrainingView;

/// Checkpoint group of a worker's state: "state/worker-0003". @param worker  global number
std::string worker_state_group(int worker);
/// Checkpoint group of the averaged state of worker 0 (Trainer::state_ema).
inline constexpr const char* kEmaStateGroup = "ema_state";

/// Checkpoint groups of all workers' states and of the average; none if the net has no state.
/// @param states  states of all workers, from gather_states
std::vector<CheckpointGroup> state_groups(const TrainingView& training, std::span<const Buffer<float>> states);

/// Restores the states of a trainer's own workers. @throws DataError if one is missing
void restore_states(const Checkpoint& checkpoint, Trainer& trainer);

/// Checkpoint group of a worker's memory: "memory/ef/worker-0003". @param worker  global number
std::string memory_group(const std::string& memory, int worker);

/// Checkpoint groups of the workers' memories. @param kept  memories of all workers, from gather_memories
std::vector<CheckpointGroup> memory_groups(const TrainingView& training, std::span<const Buffer<float>> kept);

/// Restores the memories of a trainer's own workers. @throws DataError if one is missing, unless the checkpoint has
/// none at all and the trainer allows it (Trainer::keeps_what_is_saved)
void restore_kept(const Checkpoint& checkpoint, Trainer& trainer);

/// Checkpoint group of an exchange's state that is equal on all ranks: "shared/<tensor>".
inline constexpr const char* kSharedGroup = "shared";
/// Checkpoint group of TrainingView::shared, if there are any.
std::vector<CheckpointGroup> shared_groups(const TrainingView& training);
/// Restores TrainingView::shared. @throws DataError if one is missing
void restore_shared(const Checkpoint& checkpoint, Trainer& trainer);

/// The net's state for an evaluation of a checkpoint: the averaged state for averaged parameters, else worker 0's.
/// Empty if the net has no state. @throws DataError if it is missing
Buffer<float> load_evaluation_state(const Checkpoint& checkpoint, const Net& net, bool averaged);

}  // namespace terngrad
