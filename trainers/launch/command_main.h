// command_main: error handling and exit codes of every command's main function.
#pragma once

#include <functional>
#include <string>

namespace terngrad {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;   // failure at run time
inline constexpr int kExitUsage = 2;     // an option or a combination of options cannot be honoured
inline constexpr int kExitSignal = 128;  // plus the signal's number: stopped by the signal, everything is saved

/// Prints one line "<command>: error: <message>" to stderr; line ends in the message become spaces, and control
/// characters are escaped (trainers/io/printable.h).
void print_error(const char* command, std::string message);

/// Calls run(argc, argv) and returns its result. If it throws, prints one line "<name>: error: <message>" to stderr and
/// returns kExitUsage for a UsageError, else kExitFailure. Output that cannot be written to stdout (a full disk) is a
/// failure too, unless the reader has closed it (a pipe to head, a closed terminal). SIGPIPE and SIGXFSZ are ignored,
/// so that writes to a closed pipe or beyond the file-size limit return an error.
///
/// A program's main uses program_main.
int command_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run);

/// command_main for a process that runs a single command: stop signals are handled in their own thread
/// (trainers/launch/signal_thread.h), and closed standard streams are opened to /dev/null
/// (kernels/runtime/standard_streams.h).
///
///   int main(int argc, char** argv) { return terngrad::program_main("terngrad_train", argc, argv,
///   terngrad::run_train); }
int program_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run);

}  // namespace terngrad
