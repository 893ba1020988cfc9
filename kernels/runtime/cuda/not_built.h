// What the CUDA backend's stand-ins do in builds without it.
#pragma once

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// @throws NotSupported that names what was asked for
[[noreturn]] inline void not_built(const char* what) {
  TERNGRAD_THROW(NotSupported, "[", what, "] this build has no CUDA backend (TERNGRAD_CUDA)");
}

}  // namespace terngrad::cuda
