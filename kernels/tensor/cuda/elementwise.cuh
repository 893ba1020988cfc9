// Element-wise kernels: a functor for one element, applied to arrays of one length by Thrust, for which CUB chooses how
// many loads are in flight. (CUB's path of bulk copies, for functors that proclaim copyable arguments, is not taken: in
// CCCL 3.0 the size of the first call decides the tiles of all later ones.)
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

/// Several arrays as one of tuples.
template <class... T>
auto zipped(T*... arrays) {
  return thrust::make_zip_iterator(thrust::make_tuple(arrays...));
}

/// out[i] = op(in[i]...) for i < count. `out` is an array, or zipped arrays for an op that returns a tuple; it may be
/// an input too, and may overlap it in no other way. The host does not wait.
/// @throws DeviceError
template <class Op, class Out, class... In>
void transform(std::size_t count, const Stream& stream, const Op& op, Out out, const In*... in) {
  if (count == 0) return;
  run_thrust(stream, [=](const auto& policy) {
    const auto first = zipped(in...);
    thrust::transform(policy, first, first + static_cast<std::ptrdiff_t>(count), out, thrust::make_zip_function(op));
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
                         thrust::constant_iterator<When>(when), out, thrust::make_zip_function(op), Asks());
  });
}

}  // namespace terngrad::cuda
