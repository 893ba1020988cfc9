#include "trainers/launched_command.h"

#include <algorithm>
#include <iostream>

#include "kernels/device.h"
#include "trainers/command_main.h"
#include "trainers/rank_options.h"
#include "version.h"

namespace terngrad {

int run_launched_command(const char* name, OptionSet& options, int argc, const char* const* argv,
                         const LaunchedCommand& command) {
  ProcessGroup processes;
  return processes.run(name, [&]() -> int {
    ParseResult parsed;
    const auto only_asks = [&] { return parsed.help_requested || parsed.version_requested; };
    processes.together([&] {
      parsed = options.parse(argc, argv);
      if (!only_asks()) command.check(processes);
    });
    if (only_asks()) {
      if (!processes.is_chief()) return kExitSuccess;
      if (parsed.help_requested) std::cout << options.help();
      if (!parsed.help_requested) std::cout << name << " " << kVersion << " (" << kCommit << ")\n";
      return kExitSuccess;
    }
    require_same_on_all_ranks(processes, options.values(), {});
    return command.run(processes);
  });
}

int threads_of_process(int asked, const ProcessGroup& processes) {
  if (asked != 0) return asked;
  return std::max(1, num_hardware_threads() / processes.num_sharing_processors());
}

}  // namespace terngrad
