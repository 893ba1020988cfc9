#include "trainers/evaluate/follow_run.h"

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {

namespace fs = std::filesystem;

std::optional<Checkpoint> load_if_there(const fs::path& path, const CheckpointLoader& load) {
  try {
    return load(path);
  } catch (const DataError&) {
    std::error_code error;
    if (fs::exists(path, error) || error) throw;
    return std::nullopt;
  }
}

std::optional<Checkpoint> load_newest_checkpoint(const fs::path& directory, const CheckpointLoader& load) {
  fs::path missing;
  for (;;) {
    const std::optional<CheckpointFile> newest = latest_checkpoint(directory);
    if (!newest) return std::nullopt;
    // Listed again without a file: not a deleted checkpoint, so load it to get the error.
    if (newest->path == missing) return load(newest->path);
    if (std::optional<Checkpoint> checkpoint = load_if_there(newest->path, load)) return checkpoint;
    missing = newest->path;
  }
}

std::optional<std::uint64_t> last_step_of_run(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  if (!fs::exists(path)) return std::nullopt;
  try {
    return nlohmann::json::parse(read_file_text(path)).at("options").at("max_steps").get<std::uint64_t>();
  } catch (const nlohmann::json::exception&) {
    TERNGRAD_THROW(DataError, "'", path.string(), "' does not say the run's max_steps");
  }
}

bool follow_run(const fs::path& directory, const std::function<void(const Checkpoint&)>& evaluate,
                const std::function<bool()>& wait, std::ostream& messages) {
  std::optional<std::uint64_t> evaluated;
  std::string said;
  const auto say_once = [&](const std::string& text) {
    if (text != said) messages << text << std::endl;
    said = text;
  };
  do {
    const std::optional<CheckpointFile> newest = latest_checkpoint(directory);
    if (newest && newest->step == evaluated) {
      say_once("step " + std::to_string(*evaluated) + " is evaluated already: waiting for the next checkpoint");
    } else if (const std::optional<Checkpoint> checkpoint = load_newest_checkpoint(directory)) {
      evaluate(*checkpoint);
      evaluated = checkpoint->state().step;
    } else {
      say_once("no checkpoint in " + directory.string() + " yet: waiting for the first");
    }
    if (evaluated) {
      // Read each time, as a run may be extended.
      const std::optional<std::uint64_t> last_step = last_step_of_run(directory);
      if (!last_step) {
        TERNGRAD_THROW(DataError, "'", directory.string(),
                       "' has checkpoints but no config.json, so nobody knows the last step: evaluate it with "
                       "--run_once");
      }
      if (*evaluated >= *last_step) return true;
    }
  } while (!wait());
  return false;
}

}  // namespace terngrad
