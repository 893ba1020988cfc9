// terngrad_codec as a function.
#pragma once

namespace terngrad {

/// Runs the command. @returns the exit code. @throws exceptions that command_main maps to one
int run_codec(int argc, char** argv);

}  // namespace terngrad
