#include "trainers/run/run_directory.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <variant>

#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfigName = "config.json";

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Json machine_json() {
  struct utsname system = {};
  ::uname(&system);
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  return {{"host", system.nodename},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"cpu_model", cpu_model()},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"usable_cores", num_hardware_threads()},
          {"memory_bytes", static_cast<std::int64_t>(bytes)}};
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json options_json(const std::vector<OptionValue>& options) {
  Json object = Json::object();
  for (const OptionValue& option : options) {
    object[option.name] = std::visit([](const auto& value) { return Json(value); }, option.value);
  }
  return object;
}

Json start_json(const RunDescription& description, std::uint64_t step) {
  return {{"time", utc_now()},
          {"step", step},
          {"arguments", description.arguments},
          {"options", options_json(description.options)},
          {"version", description.version},
          {"commit", description.commit},
          {"compiler", compiler_name()},
          {"device", description.device},
          {"hosts", description.hosts},
          {"machine", machine_json()}};
}

std::string config_text(const RunDescription& description, Json history, std::uint64_t step) {
  history.push_back(start_json(description, step));
  Json set_by_user = Json::array();
  for (const OptionValue& option : description.options) {
    if (option.set_by_user) set_by_user.push_back(option.name);
  }
  Json config = Json::object();
  config["command"] = description.command;
  config["options"] = options_json(description.options);
  config["set_by_user"] = std::move(set_by_user);
  config["identity"] = description.identity;
  config["history"] = std::move(history);
  // Arguments may be any bytes; invalid UTF-8 becomes a replacement character.
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json read_config(const Folder& folder) {
  const FileDescriptor file = folder.open(kConfigName, O_RDONLY);
  const std::string text = read_file_text(file);
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("history") || !config["history"].is_array()) {
    TERNGRAD_THROW(DataError, "'", file.path().string(), "' is damaged: it is not a JSON object with a list 'history'");
  }
  return config;
}

// The alphabetically first name in a folder that is not a temporary; empty if there is none.
std::string first_entry(const Folder& folder) {
  const std::vector<std::string> names = folder.names();
  const auto first = std::ranges::find_if_not(names, is_temporary_name);
  return first == names.end() ? "" : *first;
}

}  // namespace

std::string compiler_name() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

RunDirectory::RunDirectory(const fs::path& path) : folder_(path) {
  if (folder_.try_lock()) return;
  TERNGRAD_THROW(UsageError, "the run directory '", path.string(),
                 "' is in use by another process: wait for it, or choose another --train_dir");
}

RunDirectory RunDirectory::create(const fs::path& path, const RunDescription& description) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_file_error("create the folder", path, error.value());
  RunDirectory directory(path);
  const std::string first = first_entry(directory.folder_);
  if (!first.empty()) {
    TERNGRAD_THROW(UsageError, "the run directory '", path.string(), "' is not empty (it holds '", first,
                   "'): choose another --train_dir", holds_run(path) ? ", or resume the run in it with --resume" : "");
  }
  remove_stale_temporaries(directory.folder_);
  directory.write_config(config_text(description, Json::array(), 0));
  return directory;
}

RunDirectory RunDirectory::resume(const fs::path& path) {
  if (!holds_run(path)) {
    TERNGRAD_THROW(UsageError, "there is no run to resume in '", path.string(),
                   "' (no config.json): check --train_dir, or start a new run without --resume");
  }
  RunDirectory directory(path);
  remove_stale_temporaries(directory.folder_);
  return directory;
}

void RunDirectory::record_start(const RunDescription& description, std::uint64_t step) {
  write_config(config_text(description, read_config(folder_)["history"], step));
}

void RunDirectory::write_config(std::string text) {
  write_file_atomically(folder_, kConfigName, text);
  config_text_ = std::move(text);
}

bool RunDirectory::restore_config() const {
  if (config_text_.empty() || folder_.has(kConfigName)) return false;
  write_file_atomically(folder_, kConfigName, config_text_);
  return true;
}

RecordedIdentity RunDirectory::recorded_identity() const {
  const Json config = read_config(folder_);
  RecordedIdentity identity;
  if (!config.contains("identity")) return identity;
  for (const auto& [name, value] : config["identity"].items()) {
    if (!value.is_string()) {
      TERNGRAD_THROW(DataError, "'", config_path().string(), "' is damaged: identity/", name, " is no text");
    }
    identity[name] = value.get<std::string>();
  }
  return identity;
}

std::string RunDirectory::recorded_device() const {
  const Json config = read_config(folder_);
  const Json& history = config["history"];
  if (history.empty() || !history.back().is_object()) return "";
  const auto device = history.back().find("device");
  return device != history.back().end() && device->is_string() ? device->get<std::string>() : "";
}

bool RunDirectory::holds_run(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "config.json", error);
}

}  // namespace terngrad
