// terngrad_records: data sets as TFRecord shards.
#pragma once

namespace terngrad {

/// Runs the command: build, index, check, show, copy or stats. @returns the exit code. @throws exceptions that
/// command_main maps to one
int run_records(int argc, char** argv);

}  // namespace terngrad
