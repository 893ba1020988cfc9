// Devices and streams: the location of memory and the queues of work.
#pragma once

#include <memory>
#include <string>

namespace terngrad {

enum class DeviceKind { kCpu, kCuda };

/// The CPU or one GPU. A small value; copy freely.
class Device {
 public:
  /// The CPU of this process.
  static Device cpu() { return Device(DeviceKind::kCpu, 0); }
  /// GPU `index` among those visible to this process (CUDA_VISIBLE_DEVICES applies).
  /// @throws NotSupported with the reason if there is no such GPU: no CUDA in the build, no driver, too few devices
  static Device cuda(int index = 0);

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::kCpu; }
  bool is_cuda() const { return kind_ == DeviceKind::kCuda; }
  /// "cpu" or "cuda:<index>".
  std::string name() const;
  /// Human-readable: "cpu", or the GPU's model and software, e.g. "NVIDIA H200, driver 13.0, runtime 13.0".
  std::string description() const;
  /// Identifies a GPU of the host independently of visibility and order: the driver's UUID in hexadecimal digits. "cpu"
  /// for the CPU.
  std::string unique_id() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  Device(DeviceKind kind, int index) : kind_(kind), index_(index) {}
  DeviceKind kind_;
  int index_;
};

/// Number of usable GPUs. Counts in CUDA's order (fastest first) up to the first GPU that this build has no code for.
/// Returns 0, without an error, if there is no driver or the build has no CUDA.
int num_cuda_devices();
/// Reason why num_cuda_devices() is not larger: the message of the driver or runtime, that the build has no CUDA, or
/// the GPU that is too old. Empty if all GPUs can be used.
std::string cuda_unavailable_reason();

/// Number of hardware threads that this process may use (its CPU affinity mask), at least 1.
int num_hardware_threads();

/// An ordered queue of work on one device. On the CPU, work runs immediately in the calling thread and up to
/// `num_threads() - 1` helpers. On a GPU it runs asynchronously and in order; results are valid after synchronize() and
/// for later work of the same stream. Kernel results never depend on the number of threads (contract B1). Copies of a
/// Stream share the queue.
class Stream {
 public:
  /// @param num_threads  maximum threads per kernel on the CPU, at least 1; ignored for a GPU
  explicit Stream(Device device = Device::cpu(), int num_threads = num_hardware_threads());
  /// Wraps a GPU stream without taking ownership; the owner must keep it alive while any copy is in use.
  /// @param device  the GPU of the stream
  /// @param native  the cudaStream_t; null for the device's default stream
  /// @throws InvalidArgument for the CPU
  static Stream borrow(Device device, void* native);

  const Device& device() const { return device_; }
  int num_threads() const { return num_threads_; }
  /// The cudaStream_t; null on the CPU and for a GPU's default stream.
  void* native() const { return native_.get(); }
  /// Waits until all work submitted so far has finished. Returns immediately on the CPU.
  /// @throws DeviceError for this or an earlier failure on the device
  void synchronize() const;
  /// True if all work submitted so far has finished; does not wait. Always true on the CPU. @throws DeviceError as
  /// synchronize
  bool is_done() const;

 private:
  Device device_;
  int num_threads_;
  std::shared_ptr<void> native_;
};

}  // namespace terngrad
