#include "kernels/runtime/cuda/runtime.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/check.h"
#include "kernels/runtime/cuda/uploads.h"
#include "kernels/runtime/device_guard.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {
namespace {

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// True if this process already has a context on the device. Since CUDA 12 cudaSetDevice creates one (CUDA Runtime API,
/// "Device Management"), about 0.5 GB on an H100, so unused devices must not be made current. Queries the driver
/// through the runtime, which avoids linking to libcuda. Returns false if the driver does not answer.
bool has_context(int device) {
  using GetState = int (*)(int device, unsigned* flags, int* active);
  static const GetState get_state = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr const char* kName = "cuDevicePrimaryCtxGetState";
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(kName, &found, 7000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<GetState>(found) : nullptr;
  }();
  unsigned flags = 0;
  int active = 0;
  return get_state != nullptr && get_state(device, &flags, &active) == 0 && active != 0;
}

/// For destructors and deleters, which may run while the runtime is unloading: ignores errors.
template <class Work>
void on_gpu(int device, const Work& work) noexcept {
  try {
    const int previous = make_current(device);
    work();
    if (previous >= 0) make_current_again(previous);
  } catch (const DeviceError&) {
  }
}

/// An event and its device, which must be current when the event is waited for or destroyed.
struct Event {
  Event(int gpu, unsigned flags) : device(gpu) {
    const DeviceGuard guard(Device::cuda(device));
    TERNGRAD_CUDA_CHECK(cudaEventCreateWithFlags(&native, flags));
  }
  ~Event() {
    on_gpu(device, [this] { static_cast<void>(cudaEventDestroy(native)); });
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  int device;
  cudaEvent_t native = nullptr;
};

const Event& event_at(const void* event) { return *static_cast<const Event*>(event); }

/// Number of leading GPUs that can run this build's kernels, and the reason why the next one cannot.
struct Usable {
  int count = 0;
  std::string unsupported_reason;
};

/// Does not create a context.
Usable usable_devices(int count) {
  constexpr int kMinCapability = TERNGRAD_MIN_COMPUTE_CAPABILITY;  // times ten; 0 if the build does not specify it
  const auto text = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  for (int device = 0; device < count; ++device) {
    int major = 0;
    int minor = 0;
    TERNGRAD_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    TERNGRAD_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (10 * major + minor >= kMinCapability) continue;
    return {device, "GPU " + std::to_string(device) + " (" + device_name(device) + ") has compute capability " +
                        text(10 * major + minor) + ", and this build has code from " + text(kMinCapability) +
                        " on: build with CMAKE_CUDA_ARCHITECTURES for it, or hide it by CUDA_VISIBLE_DEVICES"};
  }
  return {count, ""};
}

/// True unless the memory is device memory: the host could then overwrite it before the GPU has read it.
bool is_of_host(const void* memory) {
  cudaPointerAttributes attributes{};
  TERNGRAD_CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type != cudaMemoryTypeDevice;
}

}  // namespace

int num_devices() {
  // Without a driver the call fails and leaves its argument unchanged.
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return usable_devices(count).count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

std::string device_unavailable_reason() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess)
    return count > 0 ? usable_devices(count).unsupported_reason : "the driver reports no device";
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

int make_current(int device) {
  int previous = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&previous));
  if (device == previous) return -1;
  TERNGRAD_CUDA_CHECK(cudaSetDevice(device));
  return previous;
}

void make_current_again(int previous) noexcept {
  if (has_context(previous)) static_cast<void>(cudaSetDevice(previous));
}

void* allocate(int device, std::size_t bytes) {
  const DeviceGuard guard(Device::cuda(device));
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    TERNGRAD_THROW(DeviceError, "[Buffer] out of memory on cuda:", device, ": ", bytes, " bytes asked for");
  }
  TERNGRAD_CUDA_CHECK(error);
  return memory;
}

void deallocate(int device, void* memory) noexcept {
  if (memory == nullptr) return;
  on_gpu(device, [memory] { static_cast<void>(cudaFree(memory)); });
}

std::shared_ptr<void> allocate_pinned(int device, std::size_t bytes) {
  const DeviceGuard guard(Device::cuda(device));
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    TERNGRAD_THROW(DeviceError, "[PinnedBuffer] the host has no page-locked memory of ", bytes, " bytes");
  }
  TERNGRAD_CUDA_CHECK(error);
  return {memory, [device](void* owned) { on_gpu(device, [owned] { static_cast<void>(cudaFreeHost(owned)); }); }};
}

std::shared_ptr<void> make_stream(int device) {
  const DeviceGuard guard(Device::cuda(device));
  cudaStream_t stream = nullptr;
  TERNGRAD_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {stream, [device](void* owned) {
            on_gpu(device, [owned] { static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(owned))); });
          }};
}

void synchronize(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
}

bool is_done(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  const cudaError_t status = cudaStreamQuery(native(stream));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  TERNGRAD_CUDA_CHECK(status);
  return true;
}

bool is_capturing(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TERNGRAD_CUDA_CHECK(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
  // The runtime does not guarantee when it has read host memory, pinned or not; this function's contract does.
  if (!is_capturing(stream) && is_of_host(from)) TERNGRAD_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
}

void fill_zero(void* memory, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, native(stream)));
}

std::shared_ptr<void> make_event(int device) { return std::make_shared<Event>(device, cudaEventDefault); }

std::shared_ptr<void> make_meeting_point(int device) { return std::make_shared<Event>(device, cudaEventDisableTiming); }

void wait_for(void* event, const Stream& stream) {
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaStreamWaitEvent(native(stream), event_at(event).native, 0));
}

void record(void* event, const Stream& stream) {
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaEventRecord(event_at(event).native, native(stream)));
}

void upload(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

bool has_come(void* event) {
  const DeviceGuard guard(Device::cuda(event_at(event).device));
  const cudaError_t status = cudaEventQuery(event_at(event).native);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  TERNGRAD_CUDA_CHECK(status);
  return true;
}

void wait_until_come(void* event) {
  const DeviceGuard guard(Device::cuda(event_at(event).device));
  TERNGRAD_CUDA_CHECK(cudaEventSynchronize(event_at(event).native));
}

double seconds_between(void* begin, void* end) {
  const DeviceGuard guard(Device::cuda(event_at(end).device));
  TERNGRAD_CUDA_CHECK(cudaEventSynchronize(event_at(end).native));
  float milliseconds = 0;
  TERNGRAD_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_at(begin).native, event_at(end).native));
  return static_cast<double>(milliseconds) * 1e-3;
}

void begin_capture(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  // Thread-local mode: other threads of the process may allocate and synchronize meanwhile.
  TERNGRAD_CUDA_CHECK(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
}

std::shared_ptr<void> end_capture(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  cudaGraph_t graph = nullptr;
  TERNGRAD_CUDA_CHECK(cudaStreamEndCapture(native(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  TERNGRAD_CUDA_CHECK(error);
  std::shared_ptr<void> owner(executable, [device = stream.device().index()](void* owned) {
    on_gpu(device, [owned] { static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(owned))); });
  });
  // Upload now, not at the first launch, which may come while another GPU waits for this one.
  TERNGRAD_CUDA_CHECK(cudaGraphUpload(executable, native(stream)));
  TERNGRAD_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
  return owner;
}

void abandon_capture(const Stream& stream) noexcept {
  on_gpu(stream.device().index(), [&stream] {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(native(stream), &graph) == cudaSuccess && graph != nullptr) {
      static_cast<void>(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaGetLastError());
  });
}

void launch_graph(void* executable, const Stream& stream) {
  const DeviceGuard guard(stream.device());
  TERNGRAD_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), native(stream)));
}

std::string device_name(int device) {
  cudaDeviceProp properties{};
  TERNGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

std::string device_uuid(int device) {
  cudaDeviceProp properties{};
  TERNGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : properties.uuid.bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string versions() {
  int driver = 0;
  int runtime = 0;
  TERNGRAD_CUDA_CHECK(cudaDriverGetVersion(&driver));
  TERNGRAD_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const auto text = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  return "driver " + text(driver) + ", runtime " + text(runtime);
}

}  // namespace terngrad::cuda
