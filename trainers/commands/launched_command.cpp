#include "trainers/commands/launched_command.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/terminal_width.h"
#include "trainers/launch/build_info.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/group_error.h"
#include "trainers/run/rank_consistency.h"

namespace terngrad {
namespace {

bool is_question(const ParseResult& parsed) {
  return parsed.help_requested || parsed.version_requested || parsed.answer;
}

}  // namespace

bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed) {
  if (!is_question(parsed)) return false;
  if (parsed.help_requested) {
    std::cout << options.help(text_width(stdout));
  } else if (parsed.answer) {
    std::cout << parsed.answer(text_width(stdout));
  } else {
    std::cout << version_text(name);
  }
  return true;
}

bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed,
                      const ProcessGroup& processes) {
  const bool chief_is_asked = !processes.broadcast_string(is_question(parsed) ? "asked" : "").empty();
  processes.run_collective([&] {
    if (is_question(parsed) != chief_is_asked) {
      throw UsageError("--help, --version: are for all processes or for none");
    }
  });
  if (!chief_is_asked || !processes.is_chief()) return chief_is_asked;
  return answer_questions(name, options, parsed);
}

int run_launched_command(const char* name, OptionSet& options, int argc, const char* const* argv,
                         const LaunchedCommand& command) {
  ProcessGroup processes;
  return processes.run(name, [&]() -> int {
    ParseResult parsed;
    processes.run_collective([&] {
      parsed = options.parse(argc, argv);
      if (!is_question(parsed)) command.check(processes);
    });
    if (answer_questions(name, options, parsed, processes)) return kExitSuccess;
    require_same_on_all_ranks(processes, options.values(), {});
    return command.run(processes);
  });
}

void check_output_file(const char* option, const std::string& path, const ProcessGroup& processes) {
  if (processes.is_chief()) check_output_file(option, path);
}

void check_output_file(const char* option, const std::string& path) {
  if (path.empty()) return;
  try {
    require_writable(path);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--", option, " ", path, ": ", error.what());
  }
}

int threads_of_process(int asked, const ProcessGroup& processes) {
  if (asked != 0) return asked;
  return std::max(1, num_hardware_threads() / processes.num_sharing_processors());
}

}  // namespace terngrad
