// Devices and streams: where memory lives and where work runs.
#pragma once

#include <string>

namespace terngrad {

enum class DeviceKind { kCpu, kCuda };

/// A place where memory lives and kernels run. A small value; copy freely.
class Device {
 public:
  /// The CPU of this process.
  static Device cpu() { return Device(DeviceKind::kCpu, 0); }

  DeviceKind kind() const { return kind_; }
  int index() const { return index_; }
  bool is_cpu() const { return kind_ == DeviceKind::kCpu; }
  /// "cpu" or "cuda:<index>".
  std::string name() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  Device(DeviceKind kind, int index) : kind_(kind), index_(index) {}
  DeviceKind kind_;
  int index_;
};

/// Number of hardware threads that this process may use (its CPU affinity mask), at least 1.
int num_hardware_threads();

/// An ordered queue of work on one device. On the CPU work runs at once, in the calling thread and up to
/// `num_threads() - 1` helpers; results of kernels never depend on that number (contract B1).
class Stream {
 public:
  /// A stream on the CPU. @param num_threads  threads a kernel may use, at least 1
  explicit Stream(Device device = Device::cpu(), int num_threads = num_hardware_threads());

  const Device& device() const { return device_; }
  int num_threads() const { return num_threads_; }
  /// Returns once all work submitted so far has run. Immediate on the CPU.
  void synchronize() const {}

 private:
  Device device_;
  int num_threads_;
};

}  // namespace terngrad
