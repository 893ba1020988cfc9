// recorded_data: which data a run was trained on, as its config.json says.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace terngrad {

struct RecordedData {
  std::string dataset;
  std::string data_dir;      // as it was given: relative to the folder that the run was started in
  bool data_shards = false;  // each process had a shard below data_dir
};

/// Reads config.json of `run_directory`. Nothing if there is none or it does not say it, as that of another program.
/// @throws DataError if the file cannot be read or is damaged
std::optional<RecordedData> recorded_data(const std::filesystem::path& run_directory);

}  // namespace terngrad
