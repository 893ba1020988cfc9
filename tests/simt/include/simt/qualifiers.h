// CUDA's keywords, defined for the host compiler.
#pragma once

// For code that must differ between nvcc and the emulation: see kernels/runtime/cuda/launch.cuh.
#define SIMT_EMULATION 1

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// One copy of a block's shared variables suffices, since blocks run one after another. The address sanitizer puts red
// zones around static variables, but not around thread_local ones. Without it thread_local is better: the variables can
// be found and made undefined before each block, and each OS thread has its own addresses, as the thread sanitizer
// needs.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static thread_local
#endif
