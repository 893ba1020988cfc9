// A net's state (moving statistics) between a trainer, checkpoints and evaluation.
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

/// Checkpoint group of the state of a worker, by its global number: "state/worker-0003".
std::string worker_state_group(int worker);
/// Checkpoint group of the averaged state: of worker 0, as Trainer::state_ema has it.
inline constexpr const char* kEmaStateGroup = "ema_state";

/// The groups to save besides parameters: those of all workers, and the average. None if the net has no state.
/// @param states  of every worker, as gather_states gives them
std::vector<CheckpointGroup> state_groups(const TrainingView& training, std::span<const Buffer<float>> states);

/// Reads what state_groups saved of a trainer's own workers. @throws DataError if something is missing
void restore_states(const Checkpoint& checkpoint, Trainer& trainer);

/// Checkpoint group of what a worker keeps, by the memory's name and the worker's global number:
/// "memory/ef/worker-0003".
std::string memory_group(const std::string& memory, int worker);

/// The groups to save of what workers keep. @param kept  of every worker, as gather_memories gives them
std::vector<CheckpointGroup> memory_groups(const TrainingView& training, std::span<const Buffer<float>> kept);

/// Reads what memory_groups saved of a trainer's own workers. @throws DataError if something is missing, unless it is
/// all and the trainer allows for that (Trainer::keeps_what_is_saved)
void restore_kept(const Checkpoint& checkpoint, Trainer& trainer);

/// Checkpoint group of what all ranks keep alike: "factors/<tensor>".
inline constexpr const char* kFactorGroup = "factors";
/// The group to save of that, if there is something (TrainingView::factors).
std::vector<CheckpointGroup> factor_groups(const TrainingView& training);
/// Reads what factor_groups saved. @throws DataError if something is missing
void restore_factors(const Checkpoint& checkpoint, Trainer& trainer);

/// The state to evaluate a checkpoint's parameters with: the averaged one for averaged parameters, else worker 0's.
/// Empty if the net has none. @throws DataError if it is missing
Buffer<float> load_evaluation_state(const Checkpoint& checkpoint, const Net& net, bool averaged);

}  // namespace terngrad
