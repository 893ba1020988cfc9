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

/// Maximum resident memory of this process in bytes, without that of the process that started it. (ru_maxrss of
/// getrusage includes it.)
/// @throws Error if /proc/self/status cannot be read
double peak_resident_bytes();

}  // namespace terngrad
