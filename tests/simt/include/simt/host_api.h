// The functions of the CUDA runtime that hosts call: devices, one or as many as SIMT_DEVICES says, whose memory is the
// host's, and streams that run everything at once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

/// A stream that is being captured records what it is given; else it runs it at once. One that has waited for an event
/// of another stream is a branch of that one, until the other waits for it.
struct CUstream_st {
  bool capturing = false;
  bool hangs = false;  // as if its work did not end: set by tests
  std::vector<std::function<void()>> recorded;
  CUstream_st* origin = nullptr;                 // of a branch: the stream whose event it waited for
  std::vector<std::function<void()>> held_back;  // of a branch, if branches run late
  std::vector<CUstream_st*> branches;            // that this one is yet to wait for
};
using cudaStream_t = CUstream_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
constexpr unsigned cudaStreamNonBlocking = 1;

namespace simt {

/// More than any test needs: a request beyond fails as on a GPU, and does not reach a sanitizer's allocator, which
/// would end the program.
inline constexpr std::size_t kDeviceMemoryBytes = std::size_t{16} << 30;

/// What cudaGetLastError returns next.
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

inline thread_local int current_device = 0;

/// Streams that this thread captures. Waiting and allocating are errors then, as they are on a GPU.
inline thread_local int num_captures = 0;

/// Whether the work of a branch runs as late as it may, where the stream that it left waits for it. Else it runs as
/// early as it may: what a GPU does lies between.
inline bool branches_run_late() { return std::getenv("SIMT_SEED") != nullptr; }

/// Runs `work`, or records it.
inline void submit(cudaStream_t stream, std::function<void()> work) {
  if (stream != nullptr && stream->origin != nullptr) {
    if (branches_run_late()) {
      stream->held_back.push_back(std::move(work));
    } else {
      submit(stream->origin, std::move(work));
    }
  } else if (stream != nullptr && stream->capturing) {
    stream->recorded.push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace simt

inline cudaError_t cudaGetLastError() {
  const cudaError_t error = simt::last_error;
  simt::last_error = cudaSuccess;
  return error;
}
inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
  }
  return "unrecognized error code";
}
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
  }
  return "unrecognized error code";
}

// All devices are the host, whose memory each of them can use.
inline cudaError_t cudaGetDeviceCount(int* count) {
  const char* const devices = std::getenv("SIMT_DEVICES");
  *count = devices == nullptr ? 1 : std::atoi(devices);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = simt::current_device;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return simt::remember(cudaErrorInvalidDevice);
  simt::current_device = device;
  return cudaSuccess;
}

template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  if (simt::num_captures > 0) return simt::remember(cudaErrorStreamCaptureUnsupported);
  void* allocated = nullptr;
  if (bytes > simt::kDeviceMemoryBytes || (bytes > 0 && posix_memalign(&allocated, 256, bytes) != 0)) {
    return simt::remember(cudaErrorMemoryAllocation);
  }
  if (bytes > 0) std::memset(allocated, 0xff, bytes);  // NaNs, for its contents are undefined
  *memory = static_cast<T*>(allocated);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream = nullptr) {
  simt::submit(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream = nullptr) {
  simt::submit(stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;  // an object of its own: the address sanitizer sees one that is never destroyed
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return simt::remember(stream->capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->hangs ? simt::remember(cudaErrorNotReady) : cudaStreamSynchronize(stream);
}

// The device's memory is the host's, and a copy has read it when it returns.
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  attributes->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}
