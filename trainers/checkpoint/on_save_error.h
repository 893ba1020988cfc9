// OnSaveError: policy for checkpoints that cannot be written.
#pragma once

namespace terngrad {

/// Policy for checkpoints that cannot be written.
enum class OnSaveError {
  kStop,      // throw the error
  kContinue,  // show the error and continue with training and later saves; only the last save must succeed
};

}  // namespace terngrad
