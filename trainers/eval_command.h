// terngrad_eval as a function.
#pragma once

namespace terngrad {

/// Runs the command. @returns the exit code; throws what command_main maps to one
int run_eval(int argc, char** argv);

}  // namespace terngrad
