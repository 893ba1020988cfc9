// Host functions of the CUDA runtime. There are SIMT_DEVICES devices (default 1), whose memory is host memory.
// SIMT_STREAMS decides how streams run: immediately (default), deferred as late as events allow, or in threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "simt/stream_threads.h"

/// A stream. Runs, defers or (during capture) records its work. A stream that has waited for an event of another stream
/// is a branch of that stream until the other one waits for it. The default stream (null) runs work immediately.
struct CUstream_st {
  bool capturing = false;
  std::uint64_t capture = 0;  // unique number of the capture; branch: capture it began in; 0: none
  using Flag = std::shared_ptr<std::atomic<bool>>;
  Flag hangs = std::make_shared<std::atomic<bool>>(false);  // set by tests: the stream's work never ends
  std::vector<Flag> waited_for;                             // flags of all streams that it ever waited for
  std::vector<std::function<void()>> recorded;
  CUstream_st* origin = nullptr;                 // branch: the stream whose event it waited for
  std::vector<std::function<void()>> held_back;  // branch: work, if branches run late
  std::vector<CUstream_st*> branches;            // branches not joined yet

  /// Deferred work, or a wait until `other` has done `until` pieces of work.
  struct Deferred {
    std::function<void()> work;
    CUstream_st* other = nullptr;
    std::uint64_t until = 0;
  };
  std::deque<Deferred> queue;
  std::uint64_t num_submitted = 0;
  std::uint64_t num_done = 0;
  std::uint64_t number = 0;                              // in order of creation
  std::set<CUstream_st*> peers;                          // streams that share events with it
  std::shared_ptr<simt::StreamThread> thread = nullptr;  // if SIMT_STREAMS=threads
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
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
constexpr unsigned cudaStreamNonBlocking = 1;

namespace simt {

/// Larger than any test needs. A larger request fails as on a GPU; a sanitizer's allocator would end the program.
inline constexpr std::size_t kDeviceMemoryBytes = std::size_t{16} << 30;

/// The next result of cudaGetLastError.
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

inline thread_local int current_device = 0;

/// Devices on which this process has a context; calls that use the current device create one.
inline constexpr int kMaxDevices = 64;
inline std::array<std::atomic<bool>, kMaxDevices> contexts{};
inline void make_context() { contexts[static_cast<std::size_t>(current_device)] = true; }
inline bool has_context(int device) { return contexts[static_cast<std::size_t>(device)]; }
/// Forgets all contexts, as in a new process. For tests.
inline void forget_contexts() {
  for (std::atomic<bool>& each : contexts) each = false;
}

/// Number of streams that this thread captures. Waiting and allocating are errors during capture, as on a GPU.
inline thread_local int num_captures = 0;

/// True if a branch runs its work as late as possible, when its origin waits for it; else as early as possible. A GPU
/// may do either or anything between.
inline bool branches_run_late() { return std::getenv("SIMT_SEED") != nullptr; }

/// True if streams do nothing until the host waits. Then streams that share events run one after another, each as far
/// ahead as events allow, so that a missing event changes the results.
inline bool streams_defer() { return std::getenv("SIMT_STREAMS") != nullptr && !streams_are_threads(); }
/// True if the newest stream (a branch) runs first, else the oldest.
inline bool newest_stream_is_first() { return std::strcmp(std::getenv("SIMT_STREAMS"), "oldest_first") != 0; }

/// Streams with deferred work of this thread.
inline thread_local std::set<cudaStream_t> busy;

inline void run_until(cudaStream_t stream, std::uint64_t count) {
  while (stream->num_done < count) {
    const CUstream_st::Deferred next = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (next.other != nullptr) {
      run_until(next.other, next.until);
    } else {
      next.work();
    }
    ++stream->num_done;
  }
}

/// Runs all deferred work of the stream and its peers.
inline void drain(cudaStream_t stream) {
  if (stream->thread != nullptr) return stream->thread->wait_for(stream->thread->num_submitted());
  if (!streams_defer()) return;
  const auto is_before = [newest = newest_stream_is_first()](cudaStream_t a, cudaStream_t b) {
    return newest ? a->number > b->number : a->number < b->number;
  };
  std::set<cudaStream_t, decltype(is_before)> all(is_before);
  for (std::vector<cudaStream_t> found = {stream}; !found.empty();) {
    const cudaStream_t next = found.back();
    found.pop_back();
    if (all.insert(next).second) found.insert(found.end(), next->peers.begin(), next->peers.end());
  }
  for (const cudaStream_t next : all) {
    run_until(next, next->num_submitted);
    busy.erase(next);
  }
}

inline void defer(cudaStream_t stream, CUstream_st::Deferred next) {
  stream->queue.push_back(std::move(next));
  ++stream->num_submitted;
  busy.insert(stream);
}

/// Sizes of device allocations, unless streams run immediately: distinguishes device from host memory.
struct Allocations {
  std::mutex mutex;
  std::map<const char*, std::size_t> sizes;
};
inline Allocations allocations;

inline bool tells_memory_apart() { return std::getenv("SIMT_STREAMS") != nullptr; }

inline bool is_device_memory(const void* memory) {
  const std::lock_guard lock(allocations.mutex);
  const auto* const at = static_cast<const char*>(memory);
  const auto after = allocations.sizes.upper_bound(at);
  if (after == allocations.sizes.begin()) return false;
  const auto found = std::prev(after);
  return at < found->first + found->second;
}

/// Runs, defers or records `work`.
inline void submit(cudaStream_t stream, std::function<void()> work) {
  make_context();
  if (stream != nullptr && stream->origin != nullptr) {
    if (branches_run_late()) {
      stream->held_back.push_back(std::move(work));
    } else {
      submit(stream->origin, std::move(work));
    }
  } else if (stream != nullptr && stream->capturing) {
    stream->recorded.push_back(std::move(work));
  } else if (stream != nullptr && stream->thread != nullptr) {
    stream->thread->submit(std::move(work));
  } else if (stream != nullptr && streams_defer()) {
    defer(stream, {std::move(work)});
  } else {
    work();
  }
}

/// True if the stream or a stream that it branched from is being captured.
inline bool is_captured(cudaStream_t stream) {
  for (; stream != nullptr; stream = stream->origin) {
    if (stream->capturing) return true;
  }
  return false;
}

/// The capture that a stream belongs to; 0: none.
inline std::uint64_t capture_of(cudaStream_t stream) {
  if (stream->capturing) return stream->capture;
  // A branch that began before the capture does not belong to it.
  return stream->origin != nullptr && capture_of(stream->origin) == stream->capture ? stream->capture : 0;
}

/// Runs or records the work that the branch held back.
inline void release_held_back(cudaStream_t branch, cudaStream_t origin) {
  for (std::function<void()>& work : std::exchange(branch->held_back, {})) submit(origin, std::move(work));
}

/// Makes `stream` never end if `other` never ends.
inline void share_end(cudaStream_t stream, cudaStream_t other) {
  if (std::find(stream->waited_for.begin(), stream->waited_for.end(), other->hangs) != stream->waited_for.end()) return;
  stream->waited_for.push_back(other->hangs);
}

inline bool never_ends(cudaStream_t stream) {
  return *stream->hangs || std::any_of(stream->waited_for.begin(), stream->waited_for.end(),
                                       [](const auto& hangs) { return hangs->load(); });
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
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
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
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
  }
  return "unrecognized error code";
}

// All devices are the host and share its memory.
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
  simt::make_context();
  return cudaSuccess;
}

// Driver functions, looked up by name.
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
constexpr unsigned long long cudaEnableDefault = 0;
#define CUDART_VERSION 13000  // used in #if
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  int (*const get_state)(int, unsigned*, int*) = [](int device, unsigned*, int* active) {
    *active = simt::has_context(device) ? 1 : 0;
    return 0;
  };
  const bool is_known = std::strcmp(name, "cuDevicePrimaryCtxGetState") == 0;
  *function = is_known ? reinterpret_cast<void*>(get_state) : nullptr;
  *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  simt::make_context();
  if (simt::num_captures > 0) return simt::remember(cudaErrorStreamCaptureUnsupported);
  const simt::ContextChange change("cudaMalloc", simt::current_device);
  void* allocated = nullptr;
  if (bytes > simt::kDeviceMemoryBytes || (bytes > 0 && posix_memalign(&allocated, 256, bytes) != 0)) {
    return simt::remember(cudaErrorMemoryAllocation);
  }
  if (bytes > 0) std::memset(allocated, 0xff, bytes);  // NaNs: new memory is undefined
  if (simt::tells_memory_apart()) {
    const std::lock_guard lock(simt::allocations.mutex);
    simt::allocations.sizes[static_cast<const char*>(allocated)] = bytes;
  }
  *memory = static_cast<T*>(allocated);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  simt::make_context();
  if (memory == nullptr) return cudaSuccess;
  const simt::ContextChange change("cudaFree", simt::current_device);
  while (!simt::busy.empty()) simt::drain(*simt::busy.begin());
  if (simt::tells_memory_apart()) {
    const std::lock_guard lock(simt::allocations.mutex);
    simt::allocations.sizes.erase(static_cast<const char*>(memory));
  }
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  simt::make_context();
  if (simt::num_captures > 0) return simt::remember(cudaErrorStreamCaptureUnsupported);
  const simt::ContextChange change("cudaMallocHost", simt::current_device);
  if (posix_memalign(memory, 256, bytes) != 0) return simt::remember(cudaErrorMemoryAllocation);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
  simt::make_context();
  const simt::ContextChange change("cudaFreeHost", simt::current_device);
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
  simt::make_context();
  static std::atomic<std::uint64_t> count = 0;
  *stream = new CUstream_st;  // on the heap, so that the address sanitizer reports streams that are never destroyed
  (*stream)->number = ++count;
  if (simt::streams_are_threads()) {
    (*stream)->thread = std::make_shared<simt::StreamThread>(simt::current_device, (*stream)->number);
  }
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  simt::make_context();
  simt::drain(stream);
  for (const cudaStream_t peer : stream->peers) peer->peers.erase(stream);
  if (stream->origin != nullptr) std::erase(stream->origin->branches, stream);
  for (const cudaStream_t branch : stream->branches) branch->origin = nullptr;
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  simt::make_context();
  *status = simt::is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  simt::make_context();
  if (stream == nullptr) return cudaSuccess;
  if (simt::is_captured(stream)) return simt::remember(cudaErrorStreamCaptureUnsupported);
  simt::drain(stream);
  simt::release_held_back(stream, stream->origin);
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  simt::make_context();
  if (stream == nullptr) return cudaSuccess;
  const bool is_under_way = stream->thread != nullptr && !stream->thread->is_idle();
  if (is_under_way || simt::never_ends(stream)) return simt::remember(cudaErrorNotReady);
  return cudaStreamSynchronize(stream);
}

// Copies are complete when the call returns, unless streams defer work.
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  simt::make_context();
  const bool is_hosts = simt::tells_memory_apart() && !simt::is_device_memory(memory);
  attributes->type = is_hosts ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  return cudaSuccess;
}
