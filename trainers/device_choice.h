// DeviceChoice: where a command computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "nets/device_net.h"

namespace terngrad {

/// What --device, --num_gpus and --math come to on this machine.
struct DeviceChoice {
  std::vector<Device> gpus;  // empty: the CPU
  MathMode math = MathMode::kFp32;
  std::string note = {};  // why `auto` means the CPU, if it does

  bool is_cpu() const { return gpus.empty(); }
  /// For people: the GPU's model, how many, and what nets compute with; "cpu".
  std::string description() const;
};

/// @param device    "auto": GPUs if there are any that nets can use, else the CPU; "cpu"; "cuda"
/// @param num_gpus  how many GPUs of this process; 1 for commands without the option
/// @param math      "fp32" or "tf32"
/// @throws UsageError, naming the option, if the machine or the build has no such GPUs
DeviceChoice choose_devices(const std::string& device, int num_gpus, const std::string& math);

/// make_net where `choice` says: on its first GPU if it has any.
std::unique_ptr<Net> make_net_on(const DeviceChoice& choice, const std::string& name, const ImageShape& shape,
                                 int num_classes, const NetOptions& options, const NetConfig& config = {});

}  // namespace terngrad
