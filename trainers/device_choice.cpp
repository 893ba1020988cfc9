#include "trainers/device_choice.h"

#include <cstdlib>

#include "kernels/errors.h"

namespace terngrad {
namespace {

/// Why no net can run on a GPU here; empty if one can.
std::string why_no_gpu() {
  std::string no_nets = why_no_device_nets();
  if (!no_nets.empty()) return no_nets;
  return num_cuda_devices() == 0 ? why_no_cuda_device() : "";
}

}  // namespace

std::string DeviceChoice::description() const {
  if (is_cpu()) return "cpu";
  return (gpus.size() > 1 ? std::to_string(gpus.size()) + " x " : "") + gpus[0].description() + ", " +
         device_net_libraries() + (math == MathMode::kTf32 ? ", TF32" : ", float32");
}

DeviceChoice choose_devices(const std::string& device, int num_gpus, const std::string& math) {
  DeviceChoice choice;
  if (device == "cpu") return choice;
  // Code that is loaded when it is first used can wait for another GPU that waits for this one.
  if (num_gpus > 1) ::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  const std::string reason = why_no_gpu();
  if (!reason.empty()) {
    if (device == "cuda") TERNGRAD_THROW(UsageError, "--device cuda: ", reason, "; accepted: auto, cpu");
    choice.note = "no GPU: " + reason;
    return choice;
  }
  const int present = num_cuda_devices();
  if (num_gpus > present) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", num_gpus, ": this process sees ", present,
                   present == 1 ? " GPU" : " GPUs", "; accepted: 1 to ", present);
  }
  for (int index = 0; index < num_gpus; ++index) choice.gpus.push_back(Device::cuda(index));
  for (const Device& gpu : choice.gpus) {
    if (gpu.description() == choice.gpus[0].description()) continue;
    TERNGRAD_THROW(UsageError, "--num_gpus ", num_gpus, ": workers would get other bits on ", gpu.description(),
                   " than on ", choice.gpus[0].description(), "; choose GPUs of one model with CUDA_VISIBLE_DEVICES");
  }
  choice.math = math == "tf32" ? MathMode::kTf32 : MathMode::kFp32;
  return choice;
}

std::unique_ptr<Net> make_net_on(const DeviceChoice& choice, const std::string& name, const ImageShape& shape,
                                 int num_classes, const NetOptions& options, const NetConfig& config) {
  if (choice.is_cpu()) return make_net(name, shape, num_classes, options, config);
  return make_device_net(name, shape, num_classes, options, choice.math, Stream(choice.gpus[0]), config);
}

}  // namespace terngrad
