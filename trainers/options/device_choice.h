// DeviceChoice: where a command computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/device_net.h"

namespace terngrad {

/// GPUs of those that a process sees.
struct GpuRange {
  int first = 0;
  int count = 1;              // 0: this process serves others, which compute on GPUs
  bool ignored = false;       // no process of the run computes on GPUs, whatever this one sees
  bool joins_others = false;  // those of other processes of the run
};

/// What --device, --num_gpus and --math come to on this machine.
struct DeviceChoice {
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
std::string why_no_gpu(bool joins_others);

/// @param device    "auto": GPUs if there are any that nets can use, else the CPU; "cpu"; "cuda"
/// @param gpus      which of the GPUs that the process sees, if any; the first one for commands without the option
/// @param math      "fp32" or "tf32"
/// @throws UsageError, naming the option, if the machine or the build has no such GPUs
DeviceChoice choose_devices(const std::string& device, const GpuRange& gpus, const std::string& math);

/// make_net where `choice` says: on its first GPU if it has any.
std::unique_ptr<Net> make_net_on(const DeviceChoice& choice, const std::string& name, const ImageShape& shape,
                                 int num_classes, const NetOptions& options, const NetConfig& config = {});

}  // namespace terngrad
