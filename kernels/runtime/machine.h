// Properties of this machine for messages and reports.
#pragma once

#include <string>

namespace terngrad {

/// The SIMD instruction set that kernels use on this machine, e.g. "avx2".
std::string simd_instructions();

/// True if a GPU driver is installed, even if this build or process cannot use it. Without one there is no GPU to
/// compute on.
/// @param root  root directory of the file system
bool has_gpu_driver(const std::string& root = "");

}  // namespace terngrad
