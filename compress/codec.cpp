#include "compress/codec.h"

#include "compress/device_coder.h"
#include "kernels/errors.h"

namespace terngrad {

std::unique_ptr<DeviceCoder> Codec::make_device_coder(const DeviceExchangeSetup&, const std::vector<int>&,
                                                      const DeviceSlots&) const {
  TERNGRAD_THROW(NotSupported, "[", name(), "] the codec has no version for GPUs");
}

}  // namespace terngrad
