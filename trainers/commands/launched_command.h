// A command that runs as the ranks of a launch, or alone.
#pragma once

#include <functional>
#include <string>

#include "trainers/command_line/option_set.h"
#include "trainers/launch/process_group.h"

namespace terngrad {

/// The parts of such a command that follow each other once its options are read.
struct LaunchedCommand {
  /// Refuses what options ask for and this launch cannot do, before anything else. Does not wait for other ranks.
  std::function<void(const ProcessGroup&)> check;
  /// @returns the exit code
  std::function<int(ProcessGroup&)> run;
};

/// Joins the launch, reads the command line and runs the command; options must be the same on all ranks, except for
/// those of require_same_on_all_ranks. --help, --version and other questions are answered by the chief.
/// @param name  of the program
/// @returns the exit code; throws what command_main maps to one
int run_launched_command(const char* name, OptionSet& options, int argc, const char* const* argv,
                         const LaunchedCommand& command);

/// Answers --help, --version and other questions of a command of one process. @returns whether one was asked
bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed);

/// Answers --help, --version and other questions, on the chief; a collective call. @returns whether one of them was
/// asked for
/// @throws GroupError if some ranks were asked and others not
bool answer_questions(const char* name, const OptionSet& options, const ParseResult& parsed,
                      const ProcessGroup& processes);

/// Refuses an option that names a file which the chief is to write at the end, and cannot. Empty: no file.
/// @throws UsageError, on the chief
void check_output_file(const char* option, const std::string& path, const ProcessGroup& processes);

/// The same for a command of one process.
void check_output_file(const char* option, const std::string& path);

/// What --threads means: the number itself, or for 0 all processors of the machine, shared with the ranks that may run
/// on the same ones.
int threads_of_process(int asked, const ProcessGroup& processes);

}  // namespace terngrad
