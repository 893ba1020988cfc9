// CPU stand-in for <cuda_runtime.h>: lets kernels/*.cu compile as plain C++ and run
// one block at a time, each CUDA thread on its own fiber (see simt.cpp).
#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
#define SIMT_VEC2(T, N)             \
  struct alignas(2 * sizeof(T)) N { \
    T x, y;                         \
  };                                \
  inline N make_##N(T x, T y) { return {x, y}; }
#define SIMT_VEC4(T, N)                                       \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) N { \
    T x, y, z, w;                                             \
  };                                                          \
  inline N make_##N(T x, T y, T z, T w) { return {x, y, z, w}; }
SIMT_VEC2(float, float2)
SIMT_VEC4(float, float4) SIMT_VEC2(double, double2) SIMT_VEC2(int, int2) SIMT_VEC4(int, int4) SIMT_VEC2(unsigned, uint2)
    SIMT_VEC4(unsigned, uint4) SIMT_VEC2(unsigned char, uchar2) SIMT_VEC4(unsigned char, uchar4)
        SIMT_VEC2(unsigned short, ushort2) SIMT_VEC4(unsigned short, ushort4)
#undef SIMT_VEC2
#undef SIMT_VEC4
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __align__
#define SIMT_EMULATION 1
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static  // ASan puts redzones around it
#else
#define __shared__ static thread_local  // made undefined before every block
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// ---- host API: device memory is host memory, every stream is synchronous ------------------
using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotSupported = 801 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
constexpr unsigned cudaStreamNonBlocking = 1;

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  void* allocated = nullptr;
  if (posix_memalign(&allocated, 256, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(allocated, 0xff, bytes);  // NaNs: device memory starts undefined
  *memory = static_cast<T*>(allocated);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t = nullptr) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t = nullptr) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
};
using cudaEvent_t = CUevent_st*;
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

// Kernels run when they are launched, so nothing can be captured.
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }

struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "SIMT emulation");
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess                 ? "cudaSuccess"
         : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                              : "cudaErrorNotSupported";
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess                 ? "no error"
         : error == cudaErrorMemoryAllocation ? "out of memory"
                                              : "operation not supported";
}

// ---- the runtime (simt.cpp) -------------------------------------------------------------
namespace simt {
using Site = std::source_location;
#define SIMT_SITE simt::Site site = simt::Site::current()
struct Indices {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned lane, linear;
};
// const: a function activation never changes thread, so the compiler may hoist this.
[[gnu::const]] const Indices& self();
unsigned sync_threads(bool predicate, Site);                                   // returns the number of true predicates
const uint64_t* warp_gather(unsigned mask, uint64_t value, bool fence, Site);  // 32 slots
void* dynamic_shared();
void launch(dim3 grid, dim3 block, size_t dynamic_shared_bytes, const std::function<void()>& body);
[[noreturn]] void fail(const char* what, Site);

template <class T>
uint64_t bits(T v) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t b = 0;
  std::memcpy(&b, &v, sizeof v);
  return b;
}
template <class T>
T from_bits(uint64_t b) {
  T v;
  std::memcpy(&v, &b, sizeof v);
  return v;
}

template <class T>
T read_lane(unsigned mask, T v, int src, Site site) {
  const uint64_t* slots = warp_gather(mask, bits(v), false, site);
  if (!(mask >> src & 1)) fail("shuffle reads a lane outside its mask", site);
  return from_bits<T>(slots[src]);
}
template <class T, class Op>
T fold(unsigned mask, T v, Op op, Site site) {
  const uint64_t* slots = warp_gather(mask, bits(v), false, site);
  int first = __builtin_ctz(mask);
  T r = from_bits<T>(slots[first]);
  for (int i = first + 1; i < 32; ++i)
    if (mask >> i & 1) r = op(r, from_bits<T>(slots[i]));
  return r;
}
template <class T, class F>
T atomic_update(T* p, F f) {  // returns the old value
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static_assert(sizeof(T) == sizeof(U));
  U* q = reinterpret_cast<U*>(p);
  U old = __atomic_load_n(q, __ATOMIC_ACQUIRE), next;
  do {
    T o;
    std::memcpy(&o, &old, sizeof o);
    T n = f(o);
    std::memcpy(&next, &n, sizeof n);
  } while (!__atomic_compare_exchange_n(q, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  T o;
  std::memcpy(&o, &old, sizeof o);
  return o;
}
}  // namespace simt

#define threadIdx (simt::self().thread)
#define blockIdx (simt::self().block)
#define blockDim (simt::self().block_dim)
#define gridDim (simt::self().grid_dim)
constexpr int warpSize = 32;

// ---- barriers and warp collectives ------------------------------------------------------
inline void __syncthreads(SIMT_SITE) { simt::sync_threads(false, site); }
inline int __syncthreads_count(int p, SIMT_SITE) { return simt::sync_threads(p, site); }
inline int __syncthreads_or(int p, SIMT_SITE) { return simt::sync_threads(p, site) > 0; }
inline int __syncthreads_and(int p, SIMT_SITE) { return simt::sync_threads(!p, site) == 0; }
inline void __syncwarp(unsigned m = ~0u, SIMT_SITE) { simt::warp_gather(m, 0, true, site); }
template <class T>
T __shfl_sync(unsigned m, T v, int src, int w = 32, SIMT_SITE) {
  int lane = simt::self().lane;
  return simt::read_lane(m, v, (lane & -w) | (src & (w - 1)), site);
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, SIMT_SITE) {
  int lane = simt::self().lane, src = lane ^ x;
  return simt::read_lane(m, v, src < (lane & -w) + w ? src : lane, site);
}
template <class T>
T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32, SIMT_SITE) {
  int lane = simt::self().lane, src = lane + d;
  return simt::read_lane(m, v, src < (lane & -w) + w ? src : lane, site);
}
template <class T>
T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32, SIMT_SITE) {
  int lane = simt::self().lane, src = lane - int(d);
  return simt::read_lane(m, v, src >= (lane & -w) ? src : lane, site);
}
inline unsigned __ballot_sync(unsigned m, int p, SIMT_SITE) {
  const uint64_t* s = simt::warp_gather(m, p != 0, false, site);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if (m >> i & 1) r |= unsigned(s[i]) << i;
  return r;
}
inline int __any_sync(unsigned m, int p, SIMT_SITE) { return __ballot_sync(m, p, site) != 0; }
inline int __all_sync(unsigned m, int p, SIMT_SITE) { return __ballot_sync(m, p, site) == m; }
template <class T>
unsigned __match_any_sync(unsigned m, T v, SIMT_SITE) {
  const uint64_t* s = simt::warp_gather(m, simt::bits(v), false, site);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if ((m >> i & 1) && s[i] == simt::bits(v)) r |= 1u << i;
  return r;
}
#define SIMT_REDUCE(name, T, expr)                              \
  inline T __reduce_##name##_sync(unsigned m, T v, SIMT_SITE) { \
    return simt::fold(                                          \
        m, v, [](T a, T b) -> T { return expr; }, site);        \
  }
SIMT_REDUCE(add, unsigned, a + b)
SIMT_REDUCE(add, int, int(unsigned(a) + unsigned(b))) SIMT_REDUCE(min, unsigned, a < b ? a : b)
    SIMT_REDUCE(min, int, a < b ? a : b) SIMT_REDUCE(max, unsigned, a > b ? a : b) SIMT_REDUCE(max, int, a > b ? a : b)
        SIMT_REDUCE(and, unsigned, a& b) SIMT_REDUCE(or, unsigned, a | b) SIMT_REDUCE(xor, unsigned, a ^ b)
#undef SIMT_REDUCE

// ---- memory -----------------------------------------------------------------------------
#define SIMT_ATOMIC(Name, expr)                                    \
  template <class T>                                               \
  T Name(T* p, std::type_identity_t<T> v) {                        \
    return simt::atomic_update(p, [v](T o) -> T { return expr; }); \
  }
            SIMT_ATOMIC(atomicAdd, o + v) SIMT_ATOMIC(atomicSub, o - v) SIMT_ATOMIC(atomicExch, v)
                SIMT_ATOMIC(atomicMax, o > v ? o : v) SIMT_ATOMIC(atomicMin, o < v ? o : v) SIMT_ATOMIC(atomicOr, o | v)
                    SIMT_ATOMIC(atomicAnd, o& v) SIMT_ATOMIC(atomicXor, o ^ v)
                        SIMT_ATOMIC(atomicInc, o >= v ? 0 : o + 1)
#undef SIMT_ATOMIC
                            template <class T>
                            T atomicCAS(T* p, std::type_identity_t<T> cmp, std::type_identity_t<T> v) {
  return simt::atomic_update(p, [=](T o) { return o == cmp ? v : o; });
}
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
void __stcg(T* p, std::type_identity_t<T> v) {
  *p = v;
}

// ---- arithmetic -------------------------------------------------------------------------
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
/// The sum rounded towards zero. Exact in double for the exponents that kernels use it with.
inline float __fadd_rz(float a, float b) {
  const double exact = static_cast<double>(a) + static_cast<double>(b);
  const float nearest = static_cast<float>(exact);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) result |= unsigned(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}
inline unsigned __float_as_uint(float f) { return simt::from_bits<unsigned>(simt::bits(f)); }
inline float __uint_as_float(unsigned u) { return simt::from_bits<float>(simt::bits(u)); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return unsigned(((uint64_t(hi) << 32 | lo) << (s & 31)) >> 32);
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
