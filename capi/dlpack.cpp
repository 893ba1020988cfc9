#include "capi/dlpack.h"

#include "capi/status.h"
#include "kernels/tensor/element_type.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

std::int32_t type_of(const dlpack::Tensor& tensor) {
  const auto& type = tensor.dtype;
  if (type.lanes == 1 && type.code == dlpack::kFloat && type.bits == 32) return TG_FP32;
  if (type.lanes == 1 && type.code == dlpack::kFloat && type.bits == 16) return TG_FP16;
  if (type.lanes == 1 && type.code == dlpack::kBfloat && type.bits == 16) return TG_BF16;
  TERNGRAD_THROW(InvalidArgument, "the DLPack tensor has elements of type code ", int{type.code}, ", ", int{type.bits},
                 " bits, ", type.lanes, " lanes; accepted: fp32, fp16, bf16");
}

/// @throws InvalidArgument unless the tensor is compact, in row-major order
std::int64_t count_of(const dlpack::Tensor& tensor) {
  TERNGRAD_REQUIRE(tensor.ndim >= 0 && (tensor.shape != nullptr || tensor.ndim == 0), "the DLPack tensor has ",
                   tensor.ndim, " dimensions and no shape");
  std::int64_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) {
    TERNGRAD_REQUIRE(tensor.shape[i] >= 0 && !__builtin_mul_overflow(count, tensor.shape[i], &count),
                     "the DLPack tensor has a size of ", tensor.shape[i], " in dimension ", i);
  }
  std::int64_t expected = 1;
  for (int i = tensor.ndim; count > 0 && tensor.strides != nullptr && i-- > 0;) {
    TERNGRAD_REQUIRE(tensor.shape[i] == 1 || tensor.strides[i] == expected,
                     "the DLPack tensor is not compact in row-major order; pass a compact copy");
    expected *= tensor.shape[i];
  }
  return count;
}

tg_array array_of(const dlpack::Tensor& tensor, std::int32_t flags) {
  const std::int32_t type = type_of(tensor);
  const std::int64_t count = count_of(tensor);
  char* const begin = static_cast<char*>(tensor.data);
  TERNGRAD_REQUIRE(begin != nullptr || count == 0, "the DLPack tensor has ", count, " elements, but data is NULL");
  void* const data = begin == nullptr ? nullptr : begin + tensor.byte_offset;
  const std::size_t bytes = type == TG_FP32 ? 4 : 2;
  TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(data) % bytes == 0,
                   "the DLPack tensor is not aligned to the size of its elements; pass a copy");
  return {data, count, type, tensor.device.type, tensor.device.id, flags};
}

}  // namespace

extern "C" {

tg_status tg_array_from_dlpack(const DLManagedTensorVersioned* tensor, tg_array* out) {
  return guard([&] {
    const auto& managed = deref(reinterpret_cast<const dlpack::ManagedTensorVersioned*>(tensor), "tensor");
    tg_array& array = deref(out, "out");
    if (managed.version.major != dlpack::kMajorVersion) {
      TERNGRAD_THROW(NotSupported, "the DLPack tensor is of version ", managed.version.major, ".",
                     managed.version.minor, "; accepted: 1.x");
    }
    array = array_of(managed.tensor, (managed.flags & dlpack::kReadOnly) != 0 ? TG_READ_ONLY : 0);
  });
}

tg_status tg_array_from_dlpack_legacy(const DLManagedTensor* tensor, tg_array* out) {
  return guard([&] {
    const auto& managed = deref(reinterpret_cast<const dlpack::ManagedTensor*>(tensor), "tensor");
    tg_array& array = deref(out, "out");
    array = array_of(managed.tensor, 0);
  });
}

}  // extern "C"
