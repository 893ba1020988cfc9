#include "kernels/device.h"

#include <sched.h>

#include "kernels/errors.h"

namespace terngrad {

std::string Device::name() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index_); }

int num_hardware_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

Stream::Stream(Device device, int num_threads) : device_(device), num_threads_(num_threads) {
  TERNGRAD_REQUIRE(num_threads >= 1, "[Stream] num_threads must be at least 1, got ", num_threads);
}

}  // namespace terngrad
