// The text of --version: versions of the program and its libraries.
#pragma once

#include <string>

namespace terngrad {

/// "<command> <version> (<commit>)" and lines "<part>: <version>": compiler, kernels with the instruction set chosen on
/// this machine, nets, CUDA, cuDNN, NCCL and MPI with the loaded versions ("no" if not built in). Needs no GPU.
std::string version_text(const std::string& command);

}  // namespace terngrad
