// follow_run: evaluates new checkpoints of a run as they appear.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>

#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

/// Signature of load_checkpoint.
using CheckpointLoader = std::function<Checkpoint(const std::filesystem::path&)>;

/// Loads a listed checkpoint; nullopt if the run has deleted it meanwhile.
/// @throws DataError as load_checkpoint, for a damaged checkpoint
std::optional<Checkpoint> load_if_there(const std::filesystem::path& path,
                                        const CheckpointLoader& load = load_checkpoint);

/// Loads the newest checkpoint in `directory`; nullopt if there is none. If the run deletes it between listing and
/// opening, a newer one is loaded.
/// @throws DataError as load_checkpoint, for a damaged checkpoint
std::optional<Checkpoint> load_newest_checkpoint(const std::filesystem::path& directory,
                                                 const CheckpointLoader& load = load_checkpoint);

/// The last step of the run in `directory`, from its config.json; nullopt if there is no such file yet.
/// @throws DataError if the file is damaged or not from terngrad_train
std::optional<std::uint64_t> last_step_of_run(const std::filesystem::path& directory);

/// Calls `evaluate` with the newest checkpoint of a run, waits and repeats, until it was the run's last step or `wait`
/// returns true. Skips checkpoints that are superseded between two polls. The run may start later. Writes one line to
/// `messages` each time that it begins to wait for a new checkpoint.
/// @param wait  waits until the next poll; returns true to stop
/// @returns true if the last step has been evaluated
/// @throws DataError for a damaged checkpoint, or checkpoints without a config.json, which has the last step
bool follow_run(const std::filesystem::path& directory, const std::function<void(const Checkpoint&)>& evaluate,
                const std::function<bool()>& wait, std::ostream& messages);

}  // namespace terngrad
