// Adds advice on how to continue to the error of a failed run.
#pragma once

#include "trainers/io/folder.h"

namespace terngrad {

/// Call it while an exception is handled: throws another one (UsageError for a UsageError, Error for any other
/// std::exception) whose message also names the checkpoint in `train_dir` from which the run can continue, and after a
/// NonFiniteError options that get it past the step.
[[noreturn]] void rethrow_with_advice(const Folder& train_dir);

}  // namespace terngrad
