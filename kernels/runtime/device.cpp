#include "kernels/runtime/device.h"

#include <sched.h>

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

Device Device::cuda(int index) {
  const int count = num_cuda_devices();
  if (count == 0) TERNGRAD_THROW(NotSupported, "[Device] no GPU to use: ", cuda_unavailable_reason());
  if (index < 0 || index >= count) {
    const std::string left_out = cuda_unavailable_reason();
    TERNGRAD_THROW(NotSupported, "[Device] cuda:", index, " does not exist; there are GPUs 0 to ", count - 1,
                   left_out.empty() ? "" : " (" + left_out + ")");
  }
  return Device(DeviceKind::kCuda, index);
}

std::string Device::name() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index_); }

std::string Device::description() const {
  return is_cpu() ? "cpu" : cuda::device_name(index_) + ", " + cuda::versions();
}

std::string Device::unique_id() const { return is_cpu() ? "cpu" : cuda::device_uuid(index_); }

int num_cuda_devices() { return cuda::num_devices(); }

std::string cuda_unavailable_reason() { return cuda::device_unavailable_reason(); }

int num_hardware_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

Stream::Stream(Device device, int num_threads) : device_(device), num_threads_(device.is_cpu() ? num_threads : 1) {
  TERNGRAD_REQUIRE(num_threads >= 1, "[Stream] num_threads must be at least 1, got ", num_threads);
  if (device.is_cuda()) native_ = cuda::make_stream(device.index());
}

Stream Stream::borrow(Device device, void* native) {
  TERNGRAD_REQUIRE(device.is_cuda(), "[Stream] a stream is borrowed of a GPU, got ", device.name());
  Stream stream(Device::cpu(), 1);
  stream.device_ = device;
  stream.native_ = std::shared_ptr<void>(native, [](void*) {});
  return stream;
}

void Stream::synchronize() const {
  if (device_.is_cuda()) cuda::synchronize(*this);
}

bool Stream::is_done() const { return device_.is_cpu() || cuda::is_done(*this); }

}  // namespace terngrad
