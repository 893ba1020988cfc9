// Error feedback, momentum, DGC and EF21 on a GPU: one pass over a tensor each.
#include "kernels/tensor/cuda/memory_update.h"

#include <cuda_runtime.h>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/elementwise.cuh"
#include "kernels/tensor/cuda/memory_update.cuh"

namespace terngrad::cuda {
namespace {

struct Compensate {
  float decay, weight;
  template <class Element>
  __device__ float operator()(float state, Element gradient) const {
    return __fadd_rn(__fmul_rn(decay, state), __fmul_rn(weight, widened(gradient)));
  }
};

/// Returns the next velocity and the compensated gradient.
template <bool kNesterov>
struct Accumulate {
  float momentum;
  using Result = thrust::tuple<float, float>;

  template <class Element>
  __device__ Result operator()(float velocity, Element element) const {
    const float gradient = widened(element);
    const float next = __fadd_rn(__fmul_rn(momentum, velocity), gradient);
    return {next, kNesterov ? __fadd_rn(__fmul_rn(momentum, next), gradient) : next};
  }
  template <class Element>
  __device__ Result operator()(float residual, float velocity, Element gradient) const {
    const Result added = (*this)(velocity, gradient);
    return {thrust::get<0>(added), __fadd_rn(residual, thrust::get<1>(added))};
  }
};

template <bool kNesterov, class Element>
void launch_accumulate(const AccumulateTask& task, float momentum, const Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  const Accumulate<kNesterov> op{momentum};
  const float* velocity = task.velocity;
  const auto* gradient = static_cast<const Element*>(task.gradient);
  const auto out = zipped(task.next_velocity, task.compensated);
  if (task.residual == nullptr) return transform(count, stream, op, out, velocity, gradient);
  const float* residual = task.residual;
  transform(count, stream, op, out, residual, velocity, gradient);
}

struct Whole {
  __device__ float operator()(float encoded) const { return encoded; }
};

struct Unsent {
  __device__ float operator()(float encoded, float sent) const { return __fsub_rn(encoded, sent); }
};

struct Added {
  __device__ float operator()(float encoded, float sent) const { return __fadd_rn(encoded, sent); }
};

struct Masked {
  __device__ float operator()(float encoded, float sent) const { return sent == 0 ? encoded : 0.0f; }
};

}  // namespace

void accumulate(const AccumulateTask& task, float momentum, bool nesterov, const Stream& stream) {
  with_element(task.type, [&](auto element) {
    using Element = decltype(element);
    if (nesterov) {
      launch_accumulate<true, Element>(task, momentum, stream);
    } else {
      launch_accumulate<false, Element>(task, momentum, stream);
    }
  });
}

void compensate(const CompensateTask& task, float decay, float weight, const Stream& stream) {
  const float* state = task.state;
  with_element(task.type, [&](auto element) {
    transform(static_cast<std::size_t>(task.count), stream, Compensate{decay, weight}, task.compensated, state,
              static_cast<const decltype(element)*>(task.gradient));
  });
}

void update_memory(const MemoryUpdateTask& task, const Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  const Keeps when{task.flag, task.skip};
  const float* encoded = task.encoded;
  const float* sent = task.sent;
  if (sent == nullptr) return transform_if(count, stream, when, Whole(), task.kept, encoded);
  using Rule = MemoryUpdateTask::Rule;
  if (task.rule == Rule::kSubtract) return transform_if(count, stream, when, Unsent(), task.kept, encoded, sent);
  TERNGRAD_REQUIRE(sent != task.kept, "[keep] one that adds or masks needs what was sent apart from what is kept");
  if (task.rule == Rule::kAdd) return transform_if(count, stream, when, Added(), task.kept, encoded, sent);
  transform_if(count, stream, when, Masked(), task.kept, encoded, sent);
}

}  // namespace terngrad::cuda
