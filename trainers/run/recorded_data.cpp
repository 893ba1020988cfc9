#include "trainers/run/recorded_data.h"

#include <nlohmann/json.hpp>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"
#include "trainers/run/run_directory.h"

namespace terngrad {

std::optional<RecordedData> recorded_data(const std::filesystem::path& run_directory) {
  if (!RunDirectory::holds_run(run_directory)) return std::nullopt;
  const std::filesystem::path path = run_directory / "config.json";
  const auto config = nlohmann::json::parse(read_file_text(path), nullptr, /*allow_exceptions=*/false);
  if (config.is_discarded()) TERNGRAD_THROW(DataError, "'", path.string(), "' is damaged: it is not JSON");
  if (!config.is_object()) return std::nullopt;
  const auto options = config.find("options");
  if (options == config.end() || !options->is_object()) return std::nullopt;
  const auto dataset = options->find("dataset");
  const auto data_dir = options->find("data_dir");
  if (dataset == options->end() || !dataset->is_string()) return std::nullopt;
  if (data_dir == options->end() || !data_dir->is_string()) return std::nullopt;
  RecordedData data{.dataset = dataset->get<std::string>(), .data_dir = data_dir->get<std::string>()};
  const auto shards = options->find("data_shards");
  data.data_shards = shards != options->end() && *shards == true;
  return data;
}

}  // namespace terngrad
