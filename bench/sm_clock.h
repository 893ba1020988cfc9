// The clock of a GPU's multiprocessors.
#pragma once

#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// In MHz, at this moment; 0 where NVIDIA's management library (NVML, which comes with the driver) is missing or does
/// not say. NVML API reference, nvmlDeviceGetClockInfo.
int sm_clock_mhz(const Device& device);

}  // namespace terngrad::bench
