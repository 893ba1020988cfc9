// command_main: what the main function of every command does.
#pragma once

#include <functional>
#include <string>

namespace terngrad {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;   // failed at run time
inline constexpr int kExitUsage = 2;     // an option or a combination of options cannot be honoured
inline constexpr int kExitSignal = 128;  // plus the signal's number: stopped by it, with everything saved

/// Prints the one line "<command>: error: <message>" to stderr; ends of lines in the message become spaces, and
/// what a terminal would act on or could not show is escaped (trainers/io/printable.h).
void print_error(const char* command, std::string message);

/// Runs a command: calls run(argc, argv) and returns its result, or, if it throws, prints one line
/// "<name>: error: <message>" to stderr and returns kExitUsage for a UsageError and kExitFailure for anything else.
/// Output that could not be written to stdout (a full disk) is a failure too, unless its reader has left (a pipe to
/// head, a closed terminal). SIGPIPE and SIGXFSZ are ignored: a write to a pipe without a reader or beyond the
/// file-size limit fails as a write.
///
/// A program is this with program_main.
int command_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run);

/// command_main for a process that runs one command and nothing else: signals that stop it are taken by a thread of
/// their own (trainers/launch/signal_thread.h), and standard streams that are closed lead to /dev/null
/// (kernels/runtime/standard_streams.h).
///
///   int main(int argc, char** argv) { return terngrad::program_main("terngrad_train", argc, argv,
///   terngrad::run_train); }
int program_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run);

}  // namespace terngrad
