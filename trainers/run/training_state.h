// The state of a training run, from checkpoints: exact continuation, and new beginnings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/warm_start.h"

namespace terngrad {

class Trainer;

/// The newest checkpoint in a run's folder, nothing if there is none. @throws DataError if it is damaged
std::optional<Checkpoint> load_newest(const std::filesystem::path& directory);

/// Puts a checkpoint into a trainer of the same run: parameters, average, optimizer slots and counters, states of nets
/// and of hooks, step. What it does next is what the run that saved it did next, bit for bit (contract B4). Each rank
/// takes the states of its own workers, so that a run continues with any number of ranks.
/// @param expected  of the run that is to continue
/// @throws UsageError if the checkpoint is of another run or beyond `total_steps`; DataError if something is missing
void restore(const Checkpoint& checkpoint, const RunIdentity& expected, std::uint64_t total_steps, Trainer& trainer);

/// Begins a new run with the parameters of a checkpoint and, if the net has state, that of its first worker for all
/// workers; averages begin with them too. Slots, step and the rest of the other run are left behind.
/// @throws DataError as warm_start and Checkpoint::read_group
void begin_from(const Checkpoint& checkpoint, WarmStart what, Trainer& trainer);

}  // namespace terngrad
