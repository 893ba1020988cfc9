// The words that CUDA adds to C++, as the host's compiler shall read them.
#pragma once

// For the few places where a source cannot be the same for nvcc and the emulation: see kernels/runtime/cuda/launch.cuh.
#define SIMT_EMULATION 1

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// Blocks run one after another, so that one copy of a block's variables is enough. The address sanitizer puts red zones
// around static variables, but not around thread_local ones; these, on the other hand, can be found and made undefined
// before every block, and have other addresses in another OS thread, which the thread sanitizer wants.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static thread_local
#endif
