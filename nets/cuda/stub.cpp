// Replaces the CUDA backend of the nets in builds without cuDNN.
#include "kernels/runtime/errors.h"
#include "nets/cuda/cuda_net.h"

namespace terngrad::cuda {

std::string nets_unavailable_reason() {
  return "this build has no nets on GPUs: put cuDNN 9.8 or later beside the CUDA Toolkit and configure with "
         "-DTERNGRAD_CUDNN=ON";
}

std::string net_libraries_unavailable_reason() { return ""; }

std::string net_libraries() { return ""; }

std::string net_libraries_of_build() { return ""; }

std::unique_ptr<DeviceNet> make_net(NetPlan, const NetOptions&, MathMode, const Stream&) {
  TERNGRAD_THROW(NotSupported, "[make_device_net] ", nets_unavailable_reason());
}

}  // namespace terngrad::cuda
