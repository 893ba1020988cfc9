// OnSaveError: what a run does when a checkpoint cannot be written.
#pragma once

namespace terngrad {

/// What a run does when a checkpoint cannot be written.
enum class OnSaveError {
  kStop,      // the error is passed on
  kContinue,  // it is shown, training continues, and the next save is tried at its time; only the last one must succeed
};

}  // namespace terngrad
