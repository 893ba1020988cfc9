// Thrust algorithms on a GPU's stream: Thrust's CUDA system (CUB), or in the CPU emulation (tests/simt) its host
// system.
#pragma once

#include <cuda_runtime.h>
#include <thrust/execution_policy.h>
#ifndef SIMT_EMULATION
#include <thrust/system_error.h>
#endif

#include <cstddef>

#include "kernels/runtime/cuda/check.h"
#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_guard.h"

namespace terngrad::cuda {

/// Temporary storage for the Thrust algorithms of one stream; implements Thrust's allocator interface.
class ThrustMemory {
 public:
  using value_type = char;

  explicit ThrustMemory(const Device& device) : memory_(0, device) {}
  /// Storage for the next algorithm. @throws InvalidArgument if it would have to grow during graph capture
  char* allocate(std::ptrdiff_t bytes) {
    grow(memory_, bytes, *stream_);
    return memory_.data();
  }
  void deallocate(char* /*memory*/, std::size_t /*bytes*/) {}

 private:
  template <class Algorithm>
  friend void run_thrust(ThrustMemory& memory, Stream& stream, const Algorithm& algorithm);

  Buffer<char> memory_;
  Stream* stream_ = nullptr;  // set while an algorithm is submitted
};

namespace detail {

#ifdef SIMT_EMULATION
/// Submits the algorithm to the emulated stream, like a kernel.
template <class Algorithm>
void submit_thrust(const Stream& stream, const Algorithm& algorithm) {
  simt::load_kernel(reinterpret_cast<const void*>(&submit_thrust<Algorithm>), stream.device().index());
  simt::submit(static_cast<cudaStream_t>(stream.native()), [algorithm] { algorithm(thrust::host); });
}
#else
template <class Policy, class Algorithm>
void run_thrust_by(const Policy& policy, const Stream& stream, const Algorithm& algorithm) {
  const DeviceGuard guard(stream.device());
  try {
    algorithm(policy.on(static_cast<cudaStream_t>(stream.native())));
  } catch (const thrust::system_error& error) {
    TERNGRAD_CUDA_CHECK(static_cast<cudaError_t>(error.code().value()));
  }
}
#endif

}  // namespace detail

/// Calls algorithm(policy) for an algorithm without temporary storage. Arguments must be captured by value.
/// Asynchronous.
/// @throws DeviceError
template <class Algorithm>
void run_thrust(const Stream& stream, const Algorithm& algorithm) {
#ifdef SIMT_EMULATION
  detail::submit_thrust(stream, algorithm);
#else
  detail::run_thrust_by(thrust::cuda::par_nosync, stream, algorithm);
#endif
}

/// The same for an algorithm with temporary storage. A repeated call with at most as many elements allocates nothing
/// and can be captured.
template <class Algorithm>
void run_thrust([[maybe_unused]] ThrustMemory& memory, Stream& stream, const Algorithm& algorithm) {
#ifdef SIMT_EMULATION
  detail::submit_thrust(stream, algorithm);
#else
  memory.stream_ = &stream;
  detail::run_thrust_by(thrust::cuda::par_nosync(memory), stream, algorithm);
#endif
}

}  // namespace terngrad::cuda
