// What a training run that fails says about continuing.
#pragma once

#include "trainers/io/folder.h"

namespace terngrad {

/// To be called while an exception is handled: throws another of the same kind (UsageError for a UsageError, Error for
/// any other that derives from std::exception) whose message also says from which checkpoint in `train_dir` the
/// run can continue, and, after a NonFiniteError, which options get it past the step.
[[noreturn]] void rethrow_with_advice(const Folder& train_dir);

}  // namespace terngrad
