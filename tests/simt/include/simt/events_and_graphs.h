// Events, graphs and device properties.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "simt/host_api.h"

struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  cudaStream_t stream = nullptr;  // stream of the last record
  std::uint64_t num_before = 0;   // work submitted to that stream before, unless streams run immediately
  std::shared_ptr<simt::StreamThread> thread = nullptr;  // that stream's thread
  std::uint64_t capture = 0;                             // capture in which it was recorded; 0: none
};
using cudaEvent_t = CUevent_st*;

inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  simt::make_context();
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  simt::make_context();
  delete event;
  return cudaSuccess;
}
constexpr unsigned cudaEventDefault = 0;
constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  simt::make_context();
  event->time = std::chrono::steady_clock::now();
  event->stream = stream;
  if (stream == nullptr) return cudaSuccess;
  event->num_before = stream->thread != nullptr ? stream->thread->num_submitted() : stream->num_submitted;
  event->thread = stream->thread;
  event->capture = simt::capture_of(stream);
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  simt::make_context();
  if (event->thread != nullptr) event->thread->wait_for(event->num_before);
  if (event->thread != nullptr || event->stream == nullptr) return cudaSuccess;
  if (simt::streams_defer()) simt::run_until(event->stream, event->num_before);
  if (simt::branches_run_late()) simt::release_held_back(event->stream, event->stream->origin);
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  simt::make_context();
  if (event->stream == nullptr) return cudaSuccess;
  const bool has_come = event->thread != nullptr
                            ? event->thread->has_done(event->num_before)
                            : (!simt::streams_defer() || event->stream->num_done >= event->num_before) &&
                                  event->stream->held_back.empty();
  return has_come ? cudaSuccess : simt::remember(cudaErrorNotReady);
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  simt::make_context();
  const cudaStream_t other = event->stream;
  if (other == nullptr) return cudaSuccess;
  if (stream == nullptr) return cudaEventSynchronize(event);
  // A captured stream may wait only for events of its own capture; other streams may join a running capture.
  const bool is_under_way = event->capture == simt::capture_of(other);
  if (event->capture != simt::capture_of(stream) && !(simt::capture_of(stream) == 0 && is_under_way)) {
    return simt::remember(cudaErrorStreamCaptureIsolation);
  }
  if (other == stream) return cudaSuccess;
  if (event->thread != nullptr && !simt::is_captured(stream) && !simt::is_captured(other)) {
    simt::share_end(stream, other);
    stream->thread->submit([thread = event->thread, until = event->num_before] {
      const simt::StreamWait wait("an event of another stream");
      thread->wait_for(until);
    });
    return cudaSuccess;
  }
  if (simt::streams_defer() && !simt::is_captured(stream) && !simt::is_captured(other)) {
    simt::share_end(stream, other);
    simt::defer(stream, {.work = {}, .other = other, .until = event->num_before});
    stream->peers.insert(other);
    other->peers.insert(stream);
    return cudaSuccess;
  }
  if (other->origin == stream) {
    // The stream joins a branch again.
    other->origin = nullptr;
    std::erase(stream->branches, other);
    simt::share_end(stream, other);
    simt::release_held_back(other, stream);
  } else if (stream->number < other->number) {
    // Branches are newer than the streams that they leave, so this is only a wait.
    simt::release_held_back(other, other->origin);
  } else if (stream->origin == nullptr) {
    stream->origin = other;
    stream->capture = simt::capture_of(other);
    other->branches.push_back(stream);
  }
  return cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

// A graph: the work submitted to a stream during its capture.
struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
  bool is_uploaded = false;  // executable graphs only
};
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraph_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  simt::make_context();
  if (stream->capturing) return simt::remember(cudaErrorStreamCaptureUnsupported);
  static std::atomic<std::uint64_t> number = 0;
  stream->capturing = true;
  stream->capture = ++number;
  ++simt::num_captures;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  simt::make_context();
  if (!stream->capturing) return simt::remember(cudaErrorInvalidValue);
  stream->capturing = false;
  --simt::num_captures;
  for (const cudaStream_t branch : std::exchange(stream->branches, {})) {
    branch->origin = nullptr;
    branch->held_back.clear();
    simt::remember(cudaErrorStreamCaptureUnjoined);
  }
  if (simt::last_error == cudaErrorStreamCaptureUnjoined) {
    stream->recorded.clear();
    return cudaErrorStreamCaptureUnjoined;
  }
  *graph = new CUgraph_st{std::exchange(stream->recorded, {})};
  return cudaSuccess;
}
namespace simt {
/// Executable graphs that this thread has instantiated and not destroyed.
inline thread_local int live_graphs = 0;
}  // namespace simt
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  simt::make_context();
  const simt::ContextChange change("cudaGraphInstantiate", simt::current_device);
  *executable = new CUgraph_st(*graph);
  ++simt::live_graphs;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  simt::make_context();
  delete executable;
  --simt::live_graphs;
  return cudaSuccess;
}
/// The first launch uploads a graph that is not uploaded yet.
inline cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  if (executable->is_uploaded) return cudaSuccess;
  const simt::ContextChange change("the upload of a graph", simt::current_device);
  executable->is_uploaded = true;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  simt::make_context();
  cudaGraphUpload(executable, stream);
  for (const std::function<void()>& node : executable->nodes) simt::submit(stream, node);
  return cudaSuccess;
}

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
};
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };
/// Compute capability times 10: 90, or SIMT_COMPUTE_CAPABILITY (one number for all GPUs, or a comma-separated list).
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const char* text = std::getenv("SIMT_COMPUTE_CAPABILITY");
  for (const char* next = text; next != nullptr && device > 0; --device) {
    next = std::strchr(text, ',');
    if (next != nullptr) text = next + 1;
  }
  const int capability = text == nullptr ? 90 : std::atoi(text);
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability / 10 : capability % 10;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::strcpy(properties->name, "SIMT emulation");
  properties->uuid = {};
  properties->uuid.bytes[15] = static_cast<char>(device);
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
