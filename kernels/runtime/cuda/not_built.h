// Body of the CUDA backend's stubs in builds without CUDA.
#pragma once

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// @throws NotSupported that names the function
[[noreturn]] inline void not_built(const char* what) {
  TERNGRAD_THROW(NotSupported, "[", what, "] this build has no CUDA backend (TERNGRAD_CUDA)");
}

}  // namespace terngrad::cuda
