// Checks and changes of a gradient on a GPU. What is found goes to memory by one atomic operation per warp that found
// something: in nearly every step, none.
#include "kernels/tensor/cuda/transform.h"

#include <cuda_runtime.h>

#include "kernels/tensor/cuda/elementwise.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

__device__ bool is_nonfinite(float value) { return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u; }

struct FindNonfinite : ElementwiseOp {
  std::uint32_t* found;
  bool any = false;

  __device__ void operator()(float value) { any |= is_nonfinite(value); }
  __device__ void end() const {
    const bool any_of_warp = __any_sync(kAllLanes, any) != 0;
    if (any_of_warp && threadIdx.x % kWarpThreads == 0) atomicExch(found, 1u);
  }
};

/// Stores only where something was replaced: the pass otherwise costs reading only.
struct ZeroNonfinite : ElementwiseOp {
  std::int64_t* num_replaced;
  unsigned of_thread = 0;

  __device__ bool operator()(float& value) {
    if (!is_nonfinite(value)) return false;
    value = 0;
    ++of_thread;
    return true;
  }
  __device__ void end() const {
    const unsigned of_warp = __reduce_add_sync(kAllLanes, of_thread);
    if (of_warp == 0 || threadIdx.x % kWarpThreads != 0) return;
    static_assert(sizeof(unsigned long long) == sizeof(std::int64_t), "the type that atomicAdd takes");
    atomicAdd(reinterpret_cast<unsigned long long*>(num_replaced), static_cast<unsigned long long>(of_warp));
  }
};

struct Scale : ElementwiseOp {
  float factor;
  const float* factor_on_device;

  __device__ bool begin() {
    if (factor_on_device != nullptr) factor = *factor_on_device;
    return true;
  }
  __device__ void operator()(float& value) const { value = factor * value; }
};

struct Multiply : ElementwiseOp {
  __device__ void operator()(float a, float b, float& out) const { out = a * b; }
};

}  // namespace

void find_nonfinite(std::span<const float> values, std::uint32_t* found, const Stream& stream) {
  launch_elementwise(values.size(), stream, FindNonfinite{{}, found}, Input<float>{values.data()});
}

void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, const Stream& stream) {
  launch_elementwise(values.size(), stream, ZeroNonfinite{{}, num_replaced}, InputOutput<float>{values.data()});
}

void scale(std::span<float> values, float factor, const float* factor_on_device, const Stream& stream) {
  launch_elementwise(values.size(), stream, Scale{{}, factor, factor_on_device}, InputOutput<float>{values.data()});
}

void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, const Stream& stream) {
  launch_elementwise(out.size(), stream, Multiply{}, Input<float>{a.data()}, Input<float>{b.data()},
                     Output<float>{out.data()});
}

}  // namespace terngrad::cuda
