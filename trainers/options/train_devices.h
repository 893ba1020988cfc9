// TrainDevices: where a command computes.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/math_mode.h"
#include "trainers/options/gpu_range.h"

namespace terngrad {

/// What --device, --num_gpus and --math come to on this machine.
struct TrainDevices {
  std::vector<Device> gpus;  // empty: the CPU
  bool serves_gpus = false;  // this process computes nothing, and others of the run do on GPUs
  MathMode math = MathMode::kFp32;
  std::string note = {};  // why `auto` means the CPU, if it does

  bool is_cpu() const { return gpus.empty(); }
  /// Whether no process of the run computes on GPUs.
  bool is_cpu_run() const { return gpus.empty() && !serves_gpus; }
  /// For people: what bits depend on, the GPU's model and what nets compute with; "cpu".
  std::string model() const;
  /// The same, and how many.
  std::string description() const;
};

/// Why nets cannot be computed on a GPU here; empty if they can. @param joins_others  as GpuRange::joins_others
std::string gpu_unavailable_reason(bool joins_others);

/// @param device    "auto": GPUs if there are any that nets can use, else the CPU; "cpu"; "cuda"
/// @param gpus      which of the GPUs that the process sees, if any; the first one for commands without the option
/// @param math      "fp32" or "tf32"
/// @throws UsageError, naming the option, if the machine or the build has no such GPUs
TrainDevices choose_devices(const std::string& device, const GpuRange& gpus, const std::string& math);

}  // namespace terngrad
