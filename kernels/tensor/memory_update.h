// What workers keep of their gradients from step to step: the element-wise work of error feedback and momentum.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One tensor before it is encoded. Pointers are device memory on a GPU's stream.
struct CompensateTask {
  const float* state = nullptr;              // [count]
  const void* gradient = nullptr;            // [count], aligned to the elements' size
  ElementType type = ElementType::kFloat32;  // of the gradient, which counts as widened to float32; on a GPU no other
  float* compensated = nullptr;              // [count] out; overlaps neither
  std::int64_t count = 0;
};

/// compensated[i] = fl(fl(decay * state[i]) + fl(weight * gradient[i])). Bit-equal on every backend, except for the
/// bits of NaN. On a GPU the host does not wait. @throws InvalidArgument on a GPU for a gradient of 16 bits
void compensate(const CompensateTask& task, float decay, float weight, Stream& stream);

/// One tensor after its message was settled. Pointers are device memory on a GPU's stream.
struct KeepTask {
  const float* encoded = nullptr;  // [count] what the codec was given
  const float* sent = nullptr;     // [count] what the message says; null: what was encoded is kept whole
  float* kept = nullptr;           // [count] out; may be `sent`
  std::int64_t count = 0;
  const float* flag = nullptr;          // [1] or null: where it is NaN, the tensor was not finite
  const std::uint32_t* skip = nullptr;  // [1] or null: where it is not 0, the step is dropped
};

/// kept[i] = fl(encoded[i] - sent[i]), or encoded[i] without `sent`; `kept` is left as it is where the flag is NaN or
/// the step is dropped. Bit-equal on every backend. On a GPU the host does not wait.
void keep(const KeepTask& task, Stream& stream);

}  // namespace terngrad
