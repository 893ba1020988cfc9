// Element-wise kernels: a functor for one element, applied to arrays of one length by Thrust. CUB tunes them for each
// GPU: on compute capability 9.0 bulk copies bring the inputs to shared memory.
#pragma once

#include <cuda_runtime.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/zip_function.h>

#include <cstddef>

#include "kernels/runtime/cuda/thrust.cuh"
#if defined(CCCL_VERSION) && CCCL_VERSION >= 2008000
#include <cuda/functional>
#endif

namespace terngrad::cuda {

/// Several arrays as one of tuples.
template <class... T>
auto zipped(T*... arrays) {
  return thrust::make_zip_iterator(thrust::make_tuple(arrays...));
}

/// Tells Thrust that a functor takes values, and does not ask where they are in memory.
template <class Op>
auto of_values(const Op& op) {
#if defined(CCCL_VERSION) && CCCL_VERSION >= 2008000
  return thrust::make_zip_function(::cuda::proclaim_copyable_arguments(op));
#else
  return thrust::make_zip_function(op);
#endif
}

/// out[i] = op(in[i]...) for i < count. `out` is an array, or zipped arrays for an op that returns a tuple; it may be
/// an input too, and may overlap it in no other way. The host does not wait.
/// @throws DeviceError
template <class Op, class Out, class... In>
void transform(std::size_t count, const Stream& stream, const Op& op, Out out, const In*... in) {
  if (count == 0) return;
  run_thrust(stream, [=](const auto& policy) {
    const auto first = zipped(in...);
    thrust::transform(policy, first, first + static_cast<std::ptrdiff_t>(count), out, of_values(op));
  });
}

/// Asks a condition that the host does not know.
struct Asks {
  template <class When>
  __device__ bool operator()(const When& when) const {
    return when();
  }
};

/// The same where when(), which is asked on the GPU and is the same for all elements; else nothing is written.
template <class When, class Op, class Out, class... In>
void transform_if(std::size_t count, const Stream& stream, const When& when, const Op& op, Out out, const In*... in) {
  if (count == 0) return;
  run_thrust(stream, [=](const auto& policy) {
    const auto first = zipped(in...);
    thrust::transform_if(policy, first, first + static_cast<std::ptrdiff_t>(count),
                         thrust::constant_iterator<When>(when), out, of_values(op), Asks());
  });
}

}  // namespace terngrad::cuda
