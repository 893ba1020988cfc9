#include "python/src/tensors.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

constexpr std::uint8_t kFloatCode = 2;  // DLPack type codes
constexpr std::uint8_t kBfloatCode = 4;

std::string type_name(const nb::dlpack::dtype& type) {
  const char* kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string kind = type.code < 7 ? kinds[type.code] : "type code " + std::to_string(type.code);
  return kind + std::to_string(type.bits);
}

std::string type_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

ElementType element_type_of(const nb::ndarray<>& array, const std::string& name) {
  const nb::dlpack::dtype type = array.dtype();
  if (type.lanes == 1 && type.code == kFloatCode && type.bits == 32) return ElementType::kFloat32;
  if (type.lanes == 1 && type.code == kFloatCode && type.bits == 16) return ElementType::kFloat16;
  if (type.lanes == 1 && type.code == kBfloatCode && type.bits == 16) return ElementType::kBfloat16;
  TERNGRAD_THROW(InvalidArgument, name, " has elements of ", type_name(type), "; accepted: float32, float16, bfloat16");
}

void require_contiguous(const nb::ndarray<>& array, const std::string& name) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.size() == 0) return;
    TERNGRAD_REQUIRE(array.shape(i) == 1 || array.stride(i) == expected, name,
                     " is not contiguous in row-major order; pass a contiguous copy (PyTorch: .contiguous(), numpy: "
                     "numpy.ascontiguousarray)");
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
}

std::string first_line(const nb::python_error& error) {
  const std::string text = nb::cast<std::string>(nb::str(error.value()));
  return text.substr(0, text.find('\n'));
}

/// The error message of an object that refuses to export its memory by DLPack; may be empty.
std::string refusal_of(nb::handle object) {
  try {
    if (nb::hasattr(object, "__dlpack__")) object.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    return ": " + first_line(error);
  }
  return "";
}

/// Detaches a PyTorch tensor that requires a gradient, which DLPack does not export.
nb::object without_gradient(nb::handle object, const std::string& name) {
  if (!nb::hasattr(object, "detach")) return nb::borrow(object);
  try {
    return object.attr("detach")();
  } catch (const nb::python_error& error) {
    TERNGRAD_THROW(InvalidArgument, name, " is of type ", type_of(object), ": ", first_line(error));
  }
}

/// @throws InvalidArgument for PyTorch tensors without storage (freed by FSDP, DTensor, FakeTensor): PyTorch exports
/// them with an address near 0.
void require_memory(const nb::ndarray<>& array, nb::handle object, const std::string& name) {
  if (array.size() == 0) return;
  bool is_there = array.data() != nullptr;
  std::string reason;
  try {
    const char* storage = nb::hasattr(object, "untyped_storage") ? "untyped_storage" : "storage";
    if (nb::hasattr(object, "storage_offset")) {
      is_there = is_there && nb::cast<std::uint64_t>(object.attr(storage)().attr("data_ptr")()) != 0;
    }
  } catch (const nb::python_error& error) {
    is_there = false;
    reason = ": " + first_line(error);
  }
  TERNGRAD_REQUIRE(is_there, name, " is a ", type_of(object), " of ", array.size(),
                   " elements without memory of its own", reason);
}

nb::ndarray<> cast(nb::handle object, const std::string& name, bool writable) {
  nb::ndarray<> array;
  if (writable ? nb::try_cast(object, array, false) : false) return array;
  nb::ndarray<nb::ro> read_only;
  if (nb::try_cast(object, read_only, false)) {
    TERNGRAD_REQUIRE(!writable, name, " is read-only, but is written to");
    return nb::ndarray<>(read_only);
  }
  PyErr_Clear();
  TERNGRAD_THROW(InvalidArgument, name, " is of type ", type_of(object), refusal_of(object),
                 "; accepted: arrays with __dlpack__ or the buffer protocol (numpy, PyTorch, JAX, ...)");
}

void require_device(const nb::ndarray<>& array, const Device& device, const std::string& name) {
  const DlpackDevice expected = dlpack_device(device);
  if (array.device_type() == expected.type && array.device_id() == expected.index) return;
  TERNGRAD_REQUIRE(!device.is_cpu(), name, " is not in the memory of the CPU (DLPack device type ", array.device_type(),
                   "); this function takes tensors on the CPU");
  TERNGRAD_THROW(InvalidArgument, name, " is not in the memory of ", device.name(), " (DLPack device type ",
                 array.device_type(), ", number ", array.device_id(), ")");
}

Tensor make_tensor(nb::handle object, const std::string& name, const Device& device, bool writable) {
  Tensor tensor;
  const nb::object plain = without_gradient(object, name);
  tensor.array = cast(plain, name, writable);
  require_device(tensor.array, device, name);
  tensor.type = element_type_of(tensor.array, name);
  require_contiguous(tensor.array, name);
  require_memory(tensor.array, plain, name);
  TERNGRAD_REQUIRE(
      reinterpret_cast<std::uintptr_t>(tensor.data()) % static_cast<std::size_t>(element_bytes(tensor.type)) == 0, name,
      " is not aligned to the size of its elements; pass a copy");
  return tensor;
}

}  // namespace

std::vector<std::int64_t> Tensor::shape() const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < array.ndim(); ++i) result.push_back(static_cast<std::int64_t>(array.shape(i)));
  return result;
}

std::span<const float> Tensor::float32(const std::string& name) const {
  TERNGRAD_REQUIRE(type == ElementType::kFloat32, name, " must be float32, it is ", element_type_name(type));
  return {static_cast<const float*>(data()), static_cast<std::size_t>(count())};
}

void require_apart(const std::vector<Tensor>& tensors, const std::string& name) {
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const Tensor& tensor : tensors) {
    const char* begin = static_cast<const char*>(tensor.data());
    if (tensor.count() > 0) ranges.emplace_back(begin, begin + tensor.count() * element_bytes(tensor.type));
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    TERNGRAD_REQUIRE(ranges[i].first >= ranges[i - 1].second, name, " has tensors whose memory overlaps");
  }
}

Tensor read_tensor(nb::handle object, const std::string& name, const Device& device) {
  return make_tensor(object, name, device, false);
}

Tensor write_tensor(nb::handle object, const std::string& name, const Device& device) {
  Tensor tensor = make_tensor(object, name, device, true);
  TERNGRAD_REQUIRE(tensor.type == ElementType::kFloat32, name, " must be float32 to be written to, it is ",
                   element_type_name(tensor.type));
  return tensor;
}

DlpackDevice dlpack_device(const Device& device) {
#ifdef TERNGRAD_EMULATED_GPU
  static_cast<void>(device);
  return {};
#else
  return device.is_cpu() ? DlpackDevice{} : DlpackDevice{nb::device::cuda::value, device.index()};
#endif
}

}  // namespace terngrad::python
