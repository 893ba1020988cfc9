// Streams of the C API.
#pragma once

#include "capi/terngrad.h"
#include "kernels/runtime/device.h"

struct tg_stream {
  terngrad::Stream stream;
};

namespace terngrad::capi {

/// The library's Stream. @param stream  null: the calling thread alone
inline Stream stream_of(const tg_stream* stream) {
  return stream == nullptr ? Stream(Device::cpu(), 1) : stream->stream;
}

}  // namespace terngrad::capi
