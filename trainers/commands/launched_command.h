// Runs a command on the ranks of a launch or in a single process.
#pragma once

#include <functional>
#include <string>

#include "trainers/command_line/option_set.h"
#include "trainers/launch/process_group.h"

namespace terngrad {

/// The steps of such a command after its options are parsed, in order.
struct LaunchedCommand {
  /// Refuses options that this launch does not support. Not collective.
  std::function<void(const ProcessGroup&)> check;
  /// @returns the exit code
  std::function<int(ProcessGroup&)> run;
};

/// Joins the launch, parses the command line and runs the command. Options must be equal on all ranks, see
/// require_same_on_all_ranks. The chief answers --help, --version and other questions.
/// @param name  name of the program
/// @returns the exit code. @throws exceptions that command_main maps to one
int run_launched_command(const char* name, OptionSet& options, int argc, const char* const* argv,
                         const LaunchedCommand& command);

/// Answers --help, --version and other questions of a single-process command. @returns true if one was asked
bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed);

/// Collective: the chief answers --help, --version and other questions. @returns true if one was asked
/// @throws GroupError if only some ranks were asked
bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed,
                      const ProcessGroup& processes);

/// Checks that the chief can write the output file of an option. @param path  empty for no file
/// @throws UsageError, on the chief
void check_output_file(const char* option, const std::string& path, const ProcessGroup& processes);

/// The same for a command of one process.
void check_output_file(const char* option, const std::string& path);

/// The threads that --threads selects: the number itself, or for 0 this rank's part of the processors, shared with the
/// ranks of ProcessGroup::num_sharing_processors.
int threads_of_process(int asked, const ProcessGroup& processes);

}  // namespace terngrad
