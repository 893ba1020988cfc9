#include "trainers/options/train_devices.h"

#include <cstdlib>

#include "compress/comm/nccl/nccl_api.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/machine.h"
#include "nets/device_net.h"

namespace terngrad {
namespace {

/// Loads kernels eagerly: loading one at its first use can deadlock with another GPU that waits for this one. Must be
/// called before the first CUDA call.
void load_code_at_once() { ::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

}  // namespace

std::string gpu_unavailable_reason(bool joins_others) {
  std::string no_nets = device_nets_unavailable_reason();
  if (!no_nets.empty()) return no_nets;
  if (joins_others && !has_nccl()) return "this build has no NCCL, which connects GPUs of several processes";
  if (joins_others) load_code_at_once();
  return num_cuda_devices() == 0 ? cuda_unavailable_reason() : device_net_libraries_unavailable_reason();
}

std::string TrainDevices::model() const {
  if (is_cpu()) return "cpu";
  return gpus[0].description() + ", " + device_net_libraries() + (math == MathMode::kTf32 ? ", TF32" : ", float32");
}

std::string TrainDevices::description() const {
  return (gpus.size() > 1 ? std::to_string(gpus.size()) + " x " : "") + model();
}

TrainDevices choose_devices(const std::string& device, const GpuRange& gpus, const std::string& math) {
  TrainDevices choice;
  if (device == "cpu" || gpus.ignored) return choice;
  choice.serves_gpus = gpus.count == 0;
  if (choice.serves_gpus) return choice;
  const int num_gpus = gpus.count;
  if (num_gpus > 1) load_code_at_once();
  const std::string reason = gpu_unavailable_reason(gpus.joins_others);
  if (!reason.empty()) {
    if (device == "cuda") TERNGRAD_THROW(UsageError, "--device cuda: ", reason, "; accepted: auto, cpu");
    const bool is_plain = num_cuda_devices() == 0 && !has_gpu_driver();
    choice.note = is_plain ? "no GPU here" : "no GPU: " + reason;
    return choice;
  }
  const int present = num_cuda_devices();
  if (gpus.first + num_gpus > present) {
    const std::string more = cuda_unavailable_reason();
    TERNGRAD_THROW(UsageError, "--num_gpus ", num_gpus, ": this process sees ", present,
                   present == 1 ? " GPU" : " GPUs", more.empty() ? "" : " (" + more + ")", "; accepted: 1 to ",
                   present);
  }
  for (int index = 0; index < num_gpus; ++index) choice.gpus.push_back(Device::cuda(gpus.first + index));
  for (const Device& gpu : choice.gpus) {
    if (gpu.description() == choice.gpus[0].description()) continue;
    TERNGRAD_THROW(UsageError, "--num_gpus ", num_gpus, ": workers would get other bits on ", gpu.description(),
                   " than on ", choice.gpus[0].description(), "; choose GPUs of one model with CUDA_VISIBLE_DEVICES");
  }
  choice.math = math == "tf32" ? MathMode::kTf32 : MathMode::kFp32;
  return choice;
}

}  // namespace terngrad
