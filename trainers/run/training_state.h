// Restores the state of a run from checkpoints: exact resume and warm start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/warm_start.h"

namespace terngrad {

class Trainer;

/// The newest checkpoint in a run's folder; nullopt if there is none. @throws DataError if it is damaged
std::optional<Checkpoint> load_newest(const std::filesystem::path& directory);

/// Restores a trainer of the same run: parameters, average, optimizer slots and counters, states of nets, memories and
/// hooks, step. The trainer continues bit-identically to the run that saved the checkpoint (contract B4). Each rank
/// restores the states of its own workers, so a run can continue on any number of ranks.
/// @param expected  identity of the resumed run
/// @throws UsageError if the checkpoint is from another run or beyond `total_steps`; DataError if something is missing
void restore(const Checkpoint& checkpoint, const RunIdentity& expected, std::uint64_t total_steps, Trainer& trainer);

/// Initializes a new run with the parameters of a checkpoint and, if the net has state, its first worker's state for
/// all workers; averages start from them too. Slots, step and everything else are not taken over.
/// @throws DataError as warm_start and Checkpoint::read_group
void begin_from(const Checkpoint& checkpoint, WarmStart what, Trainer& trainer);

}  // namespace terngrad
