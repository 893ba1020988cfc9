// recorded_data: the training data recorded in a run's config.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace terngrad {

/// A run's data options.
struct RecordedData {
  std::string dataset;
  std::string data_dir;      // as given; may be relative to the folder in which the run was started
  bool data_shards = false;  // true if each process had a shard below data_dir
};

/// Reads config.json of `run_directory`. nullopt if there is none or it lacks these options.
/// @throws DataError if the file cannot be read or is damaged
std::optional<RecordedData> recorded_data(const std::filesystem::path& run_directory);

}  // namespace terngrad
