#include "trainers/launch/build_info.h"

#include "compress/comm/mpi/mpi_session.h"
#include "compress/comm/nccl/nccl_api.h"
#include "kernels/runtime/machine.h"
#include "kernels/runtime/version.h"
#include "nets/device_net.h"
#include "nets/net.h"

namespace terngrad {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string build_type() {
  const std::string type = TERNGRAD_BUILD_TYPE;
  const std::string sanitizers = TERNGRAD_SANITIZERS;
  return (type.empty() ? "no build type" : type) + (sanitizers.empty() ? "" : ", sanitizers " + sanitizers);
}

std::string or_no(const std::string& text) { return text.empty() ? "no" : text; }

/// "cuDNN: 9.19.0" from "cuDNN" and "cuDNN 9.19.0".
std::string line(const std::string& part, const std::string& what) {
  return part + ": " + or_no(what.starts_with(part + " ") ? what.substr(part.size() + 1) : what) + "\n";
}

}  // namespace

std::string version_text(const std::string& command) {
  return command + " " + version() + " (" + commit() + ")\n" + line("compiler", compiler() + ", " + build_type()) +
         line("kernels", simd_instructions() + ", threads of " TERNGRAD_THREADS_OF) + line("nets", cpu_library()) +
         line("CUDA", TERNGRAD_CUDA_TEXT) + line("cuDNN", device_net_libraries_of_build()) +
         line("NCCL", has_nccl() ? nccl_version() : "") + line("MPI", mpi_version());
}

}  // namespace terngrad
