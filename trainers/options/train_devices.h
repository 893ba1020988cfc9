// TrainDevices: the devices that a command computes on.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/math_mode.h"
#include "trainers/options/gpu_range.h"

namespace terngrad {

/// The devices and math mode that --device, --num_gpus and --math select on this machine.
struct TrainDevices {
  std::vector<Device> gpus;  // empty: the CPU
  bool serves_gpus = false;  // true if this process computes nothing, but others of the run compute on GPUs
  MathMode math = MathMode::kFp32;
  std::string note = {};  // reason why `auto` chose the CPU; empty if it did not

  bool is_cpu() const { return gpus.empty(); }
  /// True if no process of the run computes on GPUs.
  bool is_cpu_run() const { return gpus.empty() && !serves_gpus; }
  /// Human-readable text of everything that bits depend on: the GPU's model, libraries and math mode; or "cpu".
  std::string model() const;
  /// The same with the number of GPUs.
  std::string description() const;
};

/// The reason why nets cannot be computed on a GPU here; empty if they can. @param joins_others  see
/// GpuRange::joins_others
std::string gpu_unavailable_reason(bool joins_others);

/// Chooses the devices of this process.
/// @param device    "auto": GPUs if there are any that nets can use, else the CPU; "cpu"; "cuda"
/// @param gpus      GPUs to use of those that the process sees; the first one for commands without --num_gpus
/// @param math      "fp32" or "tf32"
/// @throws UsageError, naming the option, if the machine or the build has no such GPUs
TrainDevices choose_devices(const std::string& device, const GpuRange& gpus, const std::string& math);

}  // namespace terngrad
