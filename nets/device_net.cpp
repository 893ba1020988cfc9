#include "nets/device_net.h"

#include <utility>

#include "kernels/runtime/errors.h"
#include "nets/cuda/cuda_net.h"
#include "nets/net_plan.h"

namespace terngrad {

std::string device_nets_unavailable_reason() { return cuda::nets_unavailable_reason(); }

std::string device_net_libraries_unavailable_reason() { return cuda::net_libraries_unavailable_reason(); }

std::string device_net_libraries() { return cuda::net_libraries(); }

std::string device_net_libraries_of_build() { return cuda::net_libraries_of_build(); }

std::unique_ptr<DeviceNet> make_device_net(const NetSpec& spec, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream) {
  if (!stream.device().is_cuda()) {
    TERNGRAD_THROW(NotSupported, "[make_device_net] needs the stream of a GPU, got one of ", stream.device().name(),
                   "; make_net is for the CPU");
  }
  if (options.loss) {
    throw NotSupported("[make_device_net] NetOptions::loss runs on the CPU only, on GPUs leave it empty");
  }
  return cuda::make_net(plan_net(spec, shape, num_classes), options, math, stream);
}

std::unique_ptr<DeviceNet> make_device_net(const std::string& name, const ImageShape& shape, int num_classes,
                                           const NetOptions& options, MathMode math, const Stream& stream,
                                           const NetConfig& config) {
  return make_device_net(net_spec(name, config), shape, num_classes, options, math, stream);
}

}  // namespace terngrad
