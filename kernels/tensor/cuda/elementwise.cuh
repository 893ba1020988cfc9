// Element-wise kernels: Thrust applies a functor to arrays of equal length, and CUB chooses the number of loads in
// flight. CUB's bulk-copy path, for functors that proclaim copyable arguments, is not used: in CCCL 3.0 the size of the
// first call decides the tile size of all later calls.
#pragma once

#include <cuda_runtime.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
#include <thrust/zip_function.h>

#include <cstddef>

#include "kernels/runtime/cuda/thrust.cuh"

namespace terngrad::cuda {

/// Several arrays as one array of tuples.
template <class... T>
auto zipped(T*... arrays) {
  return thrust::make_zip_iterator(thrust::make_tuple(arrays...));
}

/// out[i] = op(in[i]...) for i < count. `out` is an array, or zipped arrays for an op that returns a tuple. It may be
/// one of the inputs, but must not partially overlap one. Asynchronous.
/// @throws DeviceError
template <class Op, class Out, class... In>
void transform(std::size_t count, const Stream& stream, const Op& op, Out out, const In*... in) {
  if (count == 0) return;
  run_thrust(stream, [=](const auto& policy) {
    const auto first = zipped(in...);
    thrust::transform(policy, first, first + static_cast<std::ptrdiff_t>(count), out, thrust::make_zip_function(op));
  });
}

/// Predicate for thrust::transform_if that evaluates a condition known only on the device.
struct Asks {
  template <class When>
  __device__ bool operator()(const When& when) const {
    return when();
  }
};

/// Like transform, but writes nothing if when() is false. when() runs on the GPU and must be the same for all elements.
template <class When, class Op, class Out, class... In>
void transform_if(std::size_t count, const Stream& stream, const When& when, const Op& op, Out out, const In*... in) {
  if (count == 0) return;
  run_thrust(stream, [=](const auto& policy) {
    const auto first = zipped(in...);
    thrust::transform_if(policy, first, first + static_cast<std::ptrdiff_t>(count),
                         thrust::constant_iterator<When>(when), out, thrust::make_zip_function(op), Asks());
  });
}

}  // namespace terngrad::cuda
