// Per-worker memories of the gradient: the element-wise work of error feedback, momentum, DGC and EF21.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Compensation of one tensor before it is encoded. Pointers are device memory on a GPU's stream.
struct CompensateTask {
  const float* state = nullptr;              // [count]
  const void* gradient = nullptr;            // [count], aligned to the element size
  ElementType type = ElementType::kFloat32;  // the gradient's type; elements are widened to float32 before use
  float* compensated = nullptr;              // [count] out; overlaps no input
  std::int64_t count = 0;
};

/// compensated[i] = fl(fl(decay * state[i]) + fl(weight * gradient[i])). Bit-equal on every backend, except for the
/// bits of NaN. Asynchronous on a GPU.
void compensate(const CompensateTask& task, float decay, float weight, Stream& stream);

/// One tensor before it is encoded, for a memory with a residual and a velocity. Pointers are device memory on a GPU's
/// stream.
struct AccumulateTask {
  const float* residual = nullptr;           // [count], or null: no residual, nothing is added
  const float* velocity = nullptr;           // [count]
  const void* gradient = nullptr;            // [count], aligned to the element size
  ElementType type = ElementType::kFloat32;  // the gradient's type
  float* next_velocity = nullptr;            // [count] out; overlaps no other array
  float* compensated = nullptr;              // [count] out; overlaps no other array
  std::int64_t count = 0;
};

/// Momentum correction (Lin et al., "Deep gradient compression", ICLR 2018) with velocity u and gradient g:
///
///   next[i] = fl(fl(momentum * u[i]) + g[i])
///   compensated[i] = fl(residual[i] + next[i]),  nesterov: fl(residual[i] + fl(fl(momentum * next[i]) + g[i]))
///
/// Without a residual, compensated[i] is the second summand alone. Bit-equal on every backend, except for the bits of
/// NaN. Asynchronous on a GPU.
void accumulate(const AccumulateTask& task, float momentum, bool nesterov, Stream& stream);

/// Memory update of one tensor once its message is final. Pointers are device memory on a GPU's stream.
struct MemoryUpdateTask {
  enum class Rule {
    kSubtract,  // fl(encoded[i] - sent[i])
    kAdd,       // fl(encoded[i] + sent[i]) (EF21, whose `encoded` is `kept`)
    kMask,      // encoded[i] where sent[i] is 0, else +0 (momentum masking of DGC)
  };
  const float* encoded = nullptr;  // [count] the codec's input
  const float* sent = nullptr;     // [count] decoded message; null: the whole input is kept
  float* kept = nullptr;           // [count] out; may be `encoded`, and with kSubtract `sent`
  std::int64_t count = 0;
  const float* flag = nullptr;          // [1] or null: NaN if the tensor was not finite
  const std::uint32_t* skip = nullptr;  // [1] or null: nonzero if the step is skipped
  Rule rule = Rule::kSubtract;
};

/// kept[i] by the rule, or encoded[i] without `sent`. Leaves `kept` unchanged if the flag is NaN or the step is
/// skipped. Bit-equal on every backend. Asynchronous on a GPU.
void update_memory(const MemoryUpdateTask& task, Stream& stream);

}  // namespace terngrad
