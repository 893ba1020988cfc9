// Marks functions that both backends compile.
#pragma once

#ifdef __CUDACC__
#define TERNGRAD_HOST_DEVICE __host__ __device__
#else
#define TERNGRAD_HOST_DEVICE
#endif
