// Names of the element types that a communication library adds.
#pragma once

#include <string>
#include <vector>

#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Names of the supported element types, as codecs are named: "fp32", "bf16", "fp16".
std::vector<std::string> vendor_codec_names();
/// Element type of a name. @throws InvalidArgument for another name
ElementType vendor_element_type(const std::string& codec);

}  // namespace terngrad
