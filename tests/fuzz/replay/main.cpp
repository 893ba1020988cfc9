// Runs every fuzz target on the inputs in DIR/<target>/ and $TERNGRAD_FUZZ_CORPUS/<target>/, each target in its own
// process. If a target fails, every input is run in its own process to name the failing ones.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

using Target = int (*)(const std::uint8_t* data, std::size_t size);

#define FUZZ_TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef FUZZ_TARGET

namespace terngrad {
namespace {

using Paths = std::vector<std::filesystem::path>;

struct NamedTarget {
  const char* name;
  Target run;
};

constexpr NamedTarget kTargets[] = {
#define FUZZ_TARGET(name) {#name, fuzz_##name},
#include "targets.inc"
#undef FUZZ_TARGET
};

Paths inputs_of(const std::string& target, const Paths& folders) {
  Paths inputs;
  for (const std::filesystem::path& folder : folders) {
    if (!std::filesystem::is_directory(folder / target)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder / target)) {
      if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

void run_inputs(Target target, const Paths& inputs) {
  for (const std::filesystem::path& path : inputs) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot read " + path.string());
    const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
    target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

/// Runs the inputs in a child process. @returns true if it exits with 0
bool survives(Target target, const Paths& inputs) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    run_inputs(target, inputs);
    std::exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("cannot wait for a process");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Returns true if the target survives all its inputs; prints those that fail.
bool replay(const NamedTarget& target, const Paths& folders) {
  const Paths inputs = inputs_of(target.name, folders);
  if (inputs.empty()) {
    std::printf("fuzz_replay: %s: no inputs\n", target.name);
    return false;
  }
  const bool is_fine = survives(target.run, inputs);
  std::printf("fuzz_replay: %s: %zu inputs%s\n", target.name, inputs.size(), is_fine ? "" : ": FAILED");
  if (is_fine) return true;
  for (const std::filesystem::path& input : inputs) {
    if (!survives(target.run, {input})) std::printf("fuzz_replay: %s: FAILED: %s\n", target.name, input.c_str());
  }
  return false;
}

}  // namespace
}  // namespace terngrad

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", argv[0]);
    return 2;
  }
  terngrad::Paths folders{argv[1]};
  if (const char* kept = std::getenv("TERNGRAD_FUZZ_CORPUS"); kept != nullptr && *kept != '\0')
    folders.emplace_back(kept);
  bool is_fine = true;
  for (const terngrad::NamedTarget& target : terngrad::kTargets) is_fine = terngrad::replay(target, folders) && is_fine;
  return is_fine ? 0 : 1;
}
