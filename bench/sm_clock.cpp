#include "bench/sm_clock.h"

#include <dlfcn.h>

#include <string>

namespace terngrad::bench {
namespace {

/// The functions of NVML that are needed here. It is loaded, not linked: a machine without a GPU has none.
class ManagementLibrary {
 public:
  ManagementLibrary() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    handle_by_uuid_ = reinterpret_cast<HandleByUuid>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
    clock_ = reinterpret_cast<Clock>(dlsym(library, "nvmlDeviceGetClockInfo"));
    is_there_ = init != nullptr && handle_by_uuid_ != nullptr && clock_ != nullptr && init() == 0;
  }

  int sm_clock_mhz(const std::string& uuid) const {
    constexpr int kSm = 1;  // NVML_CLOCK_SM
    void* handle = nullptr;
    unsigned mhz = 0;
    if (!is_there_ || handle_by_uuid_(uuid.c_str(), &handle) != 0 || clock_(handle, kSm, &mhz) != 0) return 0;
    return static_cast<int>(mhz);
  }

 private:
  using HandleByUuid = int (*)(const char* uuid, void** handle);
  using Clock = int (*)(void* handle, int type, unsigned* mhz);
  HandleByUuid handle_by_uuid_ = nullptr;
  Clock clock_ = nullptr;
  bool is_there_ = false;
};

/// "GPU-" and 32 digits in groups, as NVML has it.
std::string nvml_name(const std::string& digits) {
  std::string name = "GPU-";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) name += '-';
    name += digits[i];
  }
  return name;
}

}  // namespace

int sm_clock_mhz(const Device& device) {
  static const ManagementLibrary library;
  return library.sm_clock_mhz(nvml_name(device.unique_id()));
}

}  // namespace terngrad::bench
