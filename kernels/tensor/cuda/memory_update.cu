// Error feedback, momentum and DGC on a GPU: one pass over a tensor each.
#include "kernels/tensor/cuda/memory_update.h"

#include <cuda_runtime.h>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct Compensate : ElementwiseOp {
  float decay, weight;

  __device__ void operator()(float state, float gradient, float& out) const {
    out = __fadd_rn(__fmul_rn(decay, state), __fmul_rn(weight, gradient));
  }
};

template <bool kNesterov>
struct Accumulate : ElementwiseOp {
  float momentum;

  __device__ float added(float velocity, float gradient, float& next) const {
    next = __fadd_rn(__fmul_rn(momentum, velocity), gradient);
    return kNesterov ? __fadd_rn(__fmul_rn(momentum, next), gradient) : next;
  }
  __device__ void operator()(float residual, float velocity, float gradient, float& next, float& out) const {
    out = __fadd_rn(residual, added(velocity, gradient, next));
  }
  __device__ void operator()(float velocity, float gradient, float& next, float& out) const {
    out = added(velocity, gradient, next);
  }
};

template <bool kNesterov>
void launch_accumulate(const AccumulateTask& task, float momentum, const Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  const Accumulate<kNesterov> op{{}, momentum};
  const Input<float> velocity{task.velocity};
  const Input<float> gradient{static_cast<const float*>(task.gradient)};
  const Output<float> next{task.next_velocity};
  const Output<float> out{task.compensated};
  if (task.residual == nullptr) return launch_elementwise(count, stream, op, velocity, gradient, next, out);
  launch_elementwise(count, stream, op, Input<float>{task.residual}, velocity, gradient, next, out);
}

/// Whether anything is to be kept is known when the kernel runs.
struct Keep : ElementwiseOp {
  const float* flag;
  const std::uint32_t* skip;

  __device__ bool begin() const {
    const float of_tensor = flag == nullptr ? 0.0f : *flag;
    return (skip == nullptr || *skip == 0) && of_tensor == of_tensor;
  }
};

struct KeepWhole : Keep {
  __device__ void operator()(float encoded, float& kept) const { kept = encoded; }
};

struct KeepUnsent : Keep {
  __device__ void operator()(float encoded, float sent, float& kept) const { kept = __fsub_rn(encoded, sent); }
};

struct KeepUnsentInPlace : Keep {
  __device__ void operator()(float encoded, float& sent) const { sent = __fsub_rn(encoded, sent); }
};

struct KeepMasked : Keep {
  __device__ void operator()(float encoded, float sent, float& kept) const { kept = sent == 0 ? encoded : 0.0f; }
};

}  // namespace

void accumulate(const AccumulateTask& task, float momentum, bool nesterov, const Stream& stream) {
  if (nesterov) {
    launch_accumulate<true>(task, momentum, stream);
  } else {
    launch_accumulate<false>(task, momentum, stream);
  }
}

void compensate(const CompensateTask& task, float decay, float weight, const Stream& stream) {
  launch_elementwise(static_cast<std::size_t>(task.count), stream, Compensate{{}, decay, weight},
                     Input<float>{task.state}, Input<float>{static_cast<const float*>(task.gradient)},
                     Output<float>{task.compensated});
}

void keep(const KeepTask& task, const Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  const Keep when{{}, task.flag, task.skip};
  if (task.sent == nullptr) {
    launch_elementwise(count, stream, KeepWhole{when}, Input<float>{task.encoded}, Output<float>{task.kept});
  } else if (task.masks) {
    TERNGRAD_REQUIRE(task.sent != task.kept, "[keep] one that masks needs what was sent apart from what is kept");
    launch_elementwise(count, stream, KeepMasked{when}, Input<float>{task.encoded}, Input<float>{task.sent},
                       Output<float>{task.kept});
  } else if (task.sent == task.kept) {
    launch_elementwise(count, stream, KeepUnsentInPlace{when}, Input<float>{task.encoded},
                       InputOutput<float>{task.kept});
  } else {
    launch_elementwise(count, stream, KeepUnsent{when}, Input<float>{task.encoded}, Input<float>{task.sent},
                       Output<float>{task.kept});
  }
}

}  // namespace terngrad::cuda
