#include "kernels/runtime/machine.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "kernels/runtime/cpu/simd.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

std::string simd_instructions() { return cpu::simd_targets().front().name; }

bool has_gpu_driver(const std::string& root) {
  // Paths on Linux (also in containers without GPU access) and in the Windows Subsystem for Linux.
  for (const char* const path : {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"}) {
    if (::access((root + path).c_str(), F_OK) == 0) return true;
  }
  return false;
}

double peak_resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return 1024 * kibibytes;
  }
  TERNGRAD_THROW(Error, "/proc/self/status says no peak of resident memory");
}

}  // namespace terngrad
