// Error feedback and momentum on a GPU: one pass over a tensor each.
#include "kernels/tensor/cuda/memory_update.h"

#include <cuda_runtime.h>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct Compensate : ElementwiseOp {
  float decay, weight;

  __device__ void operator()(float state, float gradient, float& out) const {
    out = __fadd_rn(__fmul_rn(decay, state), __fmul_rn(weight, gradient));
  }
};

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

}  // namespace

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
  } else if (task.sent == task.kept) {
    launch_elementwise(count, stream, KeepUnsentInPlace{when}, Input<float>{task.encoded},
                       InputOutput<float>{task.kept});
  } else {
    launch_elementwise(count, stream, KeepUnsent{when}, Input<float>{task.encoded}, Input<float>{task.sent},
                       Output<float>{task.kept});
  }
}

}  // namespace terngrad::cuda
