// Following a training run: each new checkpoint as it appears.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>

#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

using CheckpointLoader = std::function<Checkpoint(const std::filesystem::path&)>;

/// The checkpoint in a file that was listed; nothing if the run has deleted it since.
/// @throws DataError as load_checkpoint, for one that is there and damaged
std::optional<Checkpoint> load_if_there(const std::filesystem::path& path,
                                        const CheckpointLoader& load = load_checkpoint);

/// The newest checkpoint in `directory`, loaded; nothing if there is none. One that the run deletes between being
/// listed and being opened is no error: there is a newer one then.
/// @throws DataError as load_checkpoint, for one that is there and damaged
std::optional<Checkpoint> load_newest_checkpoint(const std::filesystem::path& directory,
                                                 const CheckpointLoader& load = load_checkpoint);

/// The last step of the run in `directory`, by its config.json; nothing if there is no such file yet.
/// @throws DataError if the file is damaged or not of terngrad_train
std::optional<std::uint64_t> last_step_of_run(const std::filesystem::path& directory);

/// Calls `evaluate` with the newest checkpoint of a run, waits, and looks again, until that was the run's last step or
/// `wait` says to stop. Checkpoints that come and are followed by others between two looks are left out. The run need
/// not have begun. Where there is nothing new a line to `messages` says so, once until there is.
/// @param wait  waits until it is time to look again; @returns true to stop
/// @returns true if the last step has been evaluated
/// @throws DataError for a damaged checkpoint, or checkpoints without a config.json, whose last step nobody knows
bool follow_run(const std::filesystem::path& directory, const std::function<void(const Checkpoint&)>& evaluate,
                const std::function<bool()>& wait, std::ostream& messages);

}  // namespace terngrad
