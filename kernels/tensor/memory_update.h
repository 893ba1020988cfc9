// What workers keep of their gradients from step to step: the element-wise work of error feedback, momentum and DGC.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One tensor before it is encoded. Pointers are device memory on a GPU's stream.
struct CompensateTask {
  const float* state = nullptr;              // [count]
  const void* gradient = nullptr;            // [count], aligned to the elements' size
  ElementType type = ElementType::kFloat32;  // the gradient's type; it counts as widened to float32
  float* compensated = nullptr;              // [count] out; overlaps neither
  std::int64_t count = 0;
};

/// compensated[i] = fl(fl(decay * state[i]) + fl(weight * gradient[i])). Bit-equal on every backend, except for the
/// bits of NaN. On a GPU the host does not wait.
void compensate(const CompensateTask& task, float decay, float weight, Stream& stream);

/// One tensor before it is encoded, of a memory that has a residual and a velocity. Pointers are device memory on a
/// GPU's stream.
struct AccumulateTask {
  const float* residual = nullptr;           // [count], or null: there is none, and nothing is added
  const float* velocity = nullptr;           // [count]
  const void* gradient = nullptr;            // [count], as of CompensateTask
  ElementType type = ElementType::kFloat32;  // the gradient's type
  float* next_velocity = nullptr;            // [count] out; overlaps none of the others
  float* compensated = nullptr;              // [count] out; likewise
  std::int64_t count = 0;
};

/// Momentum correction (Lin et al., "Deep gradient compression", ICLR 2018): with the velocity u and the gradient g
///
///   next[i] = fl(fl(momentum * u[i]) + g[i])
///   compensated[i] = fl(residual[i] + next[i]),  nesterov: fl(residual[i] + fl(fl(momentum * next[i]) + g[i]))
///
/// and without a residual the term that would be added to it.
/// Bit-equal on every backend, except for the bits of NaN. On a GPU the host does not wait.
void accumulate(const AccumulateTask& task, float momentum, bool nesterov, Stream& stream);

/// One tensor after its message was settled. Pointers are device memory on a GPU's stream.
struct MemoryUpdateTask {
  const float* encoded = nullptr;  // [count] what the codec was given
  const float* sent = nullptr;     // [count] what the message says; null: what was encoded is kept whole
  float* kept = nullptr;           // [count] out; may be `sent`, except for one that masks
  std::int64_t count = 0;
  const float* flag = nullptr;          // [1] or null: where it is NaN, the tensor was not finite
  const std::uint32_t* skip = nullptr;  // [1] or null: where it is not 0, the step is dropped
  bool masks = false;                   // with `sent`: see keep
};

/// kept[i] = fl(encoded[i] - sent[i]), or encoded[i] without `sent`. One that masks: encoded[i] where sent[i] is 0,
/// else +0. `kept` is left as it is where the flag is NaN or the step is dropped. Bit-equal on every backend. On a GPU
/// the host does not wait.
void update_memory(const MemoryUpdateTask& task, Stream& stream);

}  // namespace terngrad
