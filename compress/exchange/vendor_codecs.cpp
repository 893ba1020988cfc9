#include "compress/exchange/vendor_codecs.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::string> vendor_codec_names() { return {"fp32", "bf16", "fp16"}; }

ElementType vendor_element_type(const std::string& codec) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    if (codec == element_type_name(type)) return type;
  }
  TERNGRAD_THROW(InvalidArgument, "[vendor] adds fp32, bf16 or fp16, got '", codec, "'");
}

}  // namespace terngrad
