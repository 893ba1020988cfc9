// terngrad_exchange_bench as a function.
#pragma once

namespace terngrad::bench {

/// Runs the command. @returns the exit code; throws what command_main maps to one
int run_exchange_bench(int argc, char** argv);

}  // namespace terngrad::bench
