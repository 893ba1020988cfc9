// What this machine has, for messages and reports.
#pragma once

#include <string>

namespace terngrad {

/// The SIMD instruction set that kernels use here, of those that they are compiled for: "avx2".
std::string simd_instructions();

/// Whether there is a driver for GPUs, whatever this build or process can do with it: a machine that has none has no
/// GPU to compute on. @param root  of the file system
bool has_gpu_driver(const std::string& root = "");

}  // namespace terngrad
