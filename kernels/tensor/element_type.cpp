#include "kernels/tensor/element_type.h"

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad {
namespace {

[[noreturn]] void refuse(const char* who, ElementType type) {
  TERNGRAD_THROW(InvalidArgument, "[", who, "] no element type has the number ", static_cast<int>(type));
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kBfloat16:
    case ElementType::kFloat16:
      return 2;
  }
  refuse("element_bytes", type);
}

const char* element_type_name(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "fp32";
    case ElementType::kBfloat16:
      return "bf16";
    case ElementType::kFloat16:
      return "fp16";
  }
  refuse("element_type_name", type);
}

float element_as_float(const void* values, ElementType type, std::int64_t index) {
  const void* const element = element_at(values, type, index);
  switch (type) {
    case ElementType::kFloat32:
      return *static_cast<const float*>(element);
    case ElementType::kBfloat16:
      return from_bfloat16(*static_cast<const std::uint16_t*>(element));
    case ElementType::kFloat16:
      return from_float16(*static_cast<const std::uint16_t*>(element));
  }
  refuse("element_as_float", type);
}

void require_aligned_elements(const void* values, ElementType type, const char* who) {
  TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(values) % element_bytes(type) == 0, "[", who, "] elements of ",
                   element_type_name(type), " must be aligned to ", element_bytes(type), " bytes, got ", values);
}

void widen(const void* values, ElementType type, std::span<float> out, Stream& stream) {
  require_aligned_elements(values, type, "widen");
  switch (type) {
    case ElementType::kFloat32:
      return copy<float>({static_cast<const float*>(values), out.size()}, out, stream);
    case ElementType::kBfloat16:
      return decode_bfloat16({static_cast<const std::uint16_t*>(values), out.size()}, out, stream);
    case ElementType::kFloat16:
      return decode_float16({static_cast<const std::uint16_t*>(values), out.size()}, out, stream);
  }
}

}  // namespace terngrad
