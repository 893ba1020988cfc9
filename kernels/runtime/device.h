// Devices and streams: where memory lives and where work runs.
#pragma once

#include <memory>
#include <string>

namespace terngrad {

enum class DeviceKind { kCpu, kCuda };

/// A place where memory lives and kernels run. A small value; copy freely.
class Device {
 public:
  /// The CPU of this process.
  static Device cpu() { return Device(DeviceKind::kCpu, 0); }
  /// GPU `index` of those that this process sees (CUDA_VISIBLE_DEVICES counts).
  /// @throws NotSupported with the reason if there is no such GPU: the build has no CUDA, no driver, too few devices
  static Device cuda(int index = 0);

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::kCpu; }
  bool is_cuda() const { return kind_ == DeviceKind::kCuda; }
  /// "cpu" or "cuda:<index>".
  std::string name() const;
  /// For people: "cpu", or the GPU's model and its software, e.g. "NVIDIA H200, driver 13.0, runtime 13.0".
  std::string description() const;
  /// Tells the GPUs of a host apart, whichever of them a process sees and in whatever order: the driver's UUID, in
  /// hexadecimal digits. "cpu" for the CPU.
  std::string unique_id() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  Device(DeviceKind kind, int index) : kind_(kind), index_(index) {}
  DeviceKind kind_;
  int index_;
};

/// GPUs that this process can use: those in CUDA's order, which has the fastest one first, before the first that the
/// build has no code for. 0 without a driver or in a build without CUDA, which is no error.
int num_cuda_devices();
/// Why there are not more of them: the driver's or the runtime's own words, that the build has no CUDA, or which GPU is
/// too old. Empty if all can be used.
std::string cuda_unavailable_reason();

/// Number of hardware threads that this process may use (its CPU affinity mask), at least 1.
int num_hardware_threads();

/// An ordered queue of work on one device. On the CPU work runs at once, in the calling thread and up to
/// `num_threads() - 1` helpers; on a GPU it runs later, in order, and results are valid after synchronize() or to work
/// submitted to the same stream. Results of kernels never depend on the number of threads (contract B1). Copies of a
/// stream are the same queue.
class Stream {
 public:
  /// @param num_threads  threads a kernel may use on the CPU, at least 1; a GPU's stream ignores it
  explicit Stream(Device device = Device::cpu(), int num_threads = num_hardware_threads());
  /// A GPU's stream of somebody else, who keeps it as long as any copy of this is in use.
  /// @param device  a GPU, whose stream it is
  /// @param native  its cudaStream_t; null is the device's default stream
  /// @throws InvalidArgument for the CPU, which has none
  static Stream borrow(Device device, void* native);

  const Device& device() const { return device_; }
  int num_threads() const { return num_threads_; }
  /// The cudaStream_t of a GPU's stream; null on the CPU, and of a GPU's default stream.
  void* native() const { return native_.get(); }
  /// Returns once all work submitted so far has run. Immediate on the CPU.
  /// @throws DeviceError for this or an earlier failure on the device
  void synchronize() const;
  /// Whether all of it has run, without waiting. True on the CPU. @throws DeviceError as synchronize
  bool is_done() const;

 private:
  Device device_;
  int num_threads_;
  std::shared_ptr<void> native_;
};

}  // namespace terngrad
