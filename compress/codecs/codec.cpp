#include "compress/codecs/codec.h"

#include "compress/codecs/device_coder.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

std::unique_ptr<DeviceCoder> Codec::make_device_coder(const DeviceExchangeSetup&, const std::vector<int>&,
                                                      const DeviceSlots&) const {
  TERNGRAD_THROW(NotSupported, "[", name(), "] the codec has no version for GPUs");
}

void check_scalers(const Codec& codec, const EncodedSlice& encoded) {
  const float max = codec.traits().max_scaler;
  for (const float scaler : encoded.scalers) {
    if (scaler >= 0 && scaler <= max) continue;
    TERNGRAD_THROW(CommunicationError, "[", codec.name(), "] scaler ", scaler, " of segment ", encoded.slice.segment,
                   " is none from 0 to ", max);
  }
}

}  // namespace terngrad
