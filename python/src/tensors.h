// Tensors of Python as the library sees them: memory of others, never copied.
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

/// An array of anything with __dlpack__ or the buffer protocol. Keeps the memory alive.
struct Tensor {
  nanobind::ndarray<> array;
  ElementType type = ElementType::kFloat32;

  void* data() const { return array.data(); }
  std::int64_t count() const { return static_cast<std::int64_t>(array.size()); }
  std::vector<std::int64_t> shape() const;
  /// @throws InvalidArgument for another type. @param name  as in read_tensor
  std::span<const float> float32(const std::string& name) const;
};

/// What is read: float32, float16 or bfloat16 (which numpy has not), contiguous in row-major order, in the memory of
/// the device. Tensors of PyTorch may require a gradient. Nothing waits for work under way on a GPU: the caller sees to
/// it.
/// @param name  in the text of a refusal: "gradient of worker 1, tensor 'fc/weights'"
/// @throws InvalidArgument naming it, what it is and what is accepted
Tensor read_tensor(nanobind::handle object, const std::string& name, const Device& device = Device::cpu());

/// @throws InvalidArgument if the memory of two of these overlaps
void require_apart(const std::vector<Tensor>& tensors, const std::string& name);

/// What is written: a float32 tensor that may be. @throws InvalidArgument as read_tensor, and for what is read-only
Tensor write_tensor(nanobind::handle object, const std::string& name, const Device& device = Device::cpu());

/// What DLPack calls a device. A GPU that is emulated has the CPU's memory.
struct DlpackDevice {
  int type = nanobind::device::cpu::value;
  int index = 0;
};
DlpackDevice dlpack_device(const Device& device);

}  // namespace terngrad::python
