// Float payloads on a GPU: the GPU part of FloatPacker.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/float_payload.h"

namespace terngrad::cuda {

class FloatPayloadRunner {
 public:
  virtual ~FloatPayloadRunner() = default;
  virtual void run(std::span<const FloatPayloadTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<FloatPayloadRunner> make_float_payload_runner(FloatPayload form, const Device& device);

}  // namespace terngrad::cuda
