// What a program is built from and computes with: what --version prints.
#pragma once

#include <string>

namespace terngrad {

/// "<command> <version> (<commit>)", the first line of --version, and lines "<part>: <what>": compiler, kernels with
/// the instruction set chosen on this machine, nets, CUDA, cuDNN, NCCL and MPI with the versions that are loaded ("no"
/// where they are not built in). Asks nothing of a GPU or a launcher.
std::string version_text(const std::string& command);

}  // namespace terngrad
