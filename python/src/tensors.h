// Views of Python tensors' memory, without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad::python {

/// Memory of an object with __dlpack__ or the buffer protocol, which it keeps alive.
struct Tensor {
  nanobind::ndarray<> array;
  ElementType type = ElementType::kFloat32;

  void* data() const { return array.data(); }
  std::int64_t count() const { return static_cast<std::int64_t>(array.size()); }
  std::vector<std::int64_t> shape() const;
  /// The elements. @throws InvalidArgument if they are not float32. @param name  as in read_tensor
  std::span<const float> float32(const std::string& name) const;
};

/// An input tensor: float32, float16 or bfloat16 (which numpy lacks), contiguous in row-major order, on the device.
/// PyTorch tensors may require a gradient. Does not synchronize with a GPU: the caller orders the work.
/// @param name  name in error messages: "gradient of worker 1, tensor 'fc/weights'"
/// @throws InvalidArgument naming the tensor, its properties and the accepted ones
Tensor read_tensor(nanobind::handle object, const std::string& name, const Device& device = Device::cpu());

/// @throws InvalidArgument if the memory of two tensors overlaps
void require_apart(const std::vector<Tensor>& tensors, const std::string& name);

/// An output tensor, float32 and writable. @throws InvalidArgument as read_tensor, and for a read-only tensor
Tensor write_tensor(nanobind::handle object, const std::string& name, const Device& device = Device::cpu());

/// DLPack's type and index of a device. An emulated GPU counts as the CPU.
struct DlpackDevice {
  int type = nanobind::device::cpu::value;
  int index = 0;
};
DlpackDevice dlpack_device(const Device& device);

}  // namespace terngrad::python
