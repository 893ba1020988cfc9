#include "tests/resume/training_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <thread>

#include "tests/support/device_of_tests.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::testing {
namespace {

/// In the child: executes the command.
[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment, const std::string& err) {
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int out = ::open("/dev/null", O_WRONLY);
  const int file = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> argv;
  std::string program = file_from("TERNGRAD_TRAIN_PROGRAM", TERNGRAD_TRAIN_PROGRAM);
  argv.push_back(program.data());
  std::vector<std::string> all = on_device_of_tests(arguments);
  for (std::string& argument : all) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

std::string file_from(const char* variable, const char* of_build) {
  const char* other = std::getenv(variable);
  return other != nullptr ? other : of_build;
}

void PrintTo(const ProcessOutcome& outcome, std::ostream* stream) {
  *stream << "exit code " << outcome.exit_code << ", signal " << outcome.signal << ", stderr: " << outcome.err;
}

ProcessOutcome run_training(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment,
                            std::optional<std::chrono::milliseconds> kill_after) {
  const TemporaryDirectory folder;
  const std::string err = (folder / "stderr").string();
  const pid_t child = ::fork();
  if (child == 0) become(arguments, environment, err);
  if (kill_after) {
    std::this_thread::sleep_for(*kill_after);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ProcessOutcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  // A child that was killed early may have no such file.
  if (std::filesystem::exists(err)) outcome.err = read_file_text(err);
  return outcome;
}

std::vector<std::string> SmallTraining::arguments(const std::filesystem::path& train_dir, int max_steps,
                                                  int save_iter) const {
  return data_.options(train_dir) +
         std::vector<std::string>{"--num_nodes",       "4",    "--grad_bits",        "1",
                                  "--clip_factor",     "2.5",  "--max_steps",        std::to_string(max_steps),
                                  "--log_steps",       "3",    "--save_iter",        std::to_string(save_iter),
                                  "--eval_steps",      "5",    "--telemetry_steps",  "4",
                                  "--optimizer",       "adam", "--keep_checkpoints", "1",
                                  "--histogram_steps", "4"};
}

FinalState final_state(const std::filesystem::path& train_dir, std::uint64_t step) {
  FinalState state;
  const std::filesystem::path path = checkpoint_path(train_dir, step);
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  if (!std::filesystem::exists(path)) return state;
  state.checkpoint = read_file_text(path);
  std::istringstream lines(read_file_text(train_dir / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::ordered_json kept = nlohmann::ordered_json::object();
    const auto record = nlohmann::ordered_json::parse(line);
    for (const auto& [key, value] : record.items()) {
      if (!key.ends_with("_seconds") && !key.ends_with("_per_second")) kept[key] = value;
    }
    state.metrics.push_back(kept.dump());
  }
  state.histograms = read_file_text(train_dir / "histograms.jsonl");
  return state;
}

}  // namespace terngrad::testing
