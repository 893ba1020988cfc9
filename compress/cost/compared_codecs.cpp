#include "compress/cost/compared_codecs.h"

#include <algorithm>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::string> compared_codec_names() { return {"fp32", "bf16", "t2", "t5"}; }

CompressedAllReduceOptions compared_codec(const std::string& name, const ComparedCodecOptions& options) {
  const std::vector<std::string> names = compared_codec_names();
  TERNGRAD_REQUIRE(std::ranges::find(names, name) != names.end(), "[compared_codec] no codec is called '", name,
                   "'; there are fp32, bf16, t2, t5");
  const bool is_ternary = name == "t2" || name == "t5";
  CompressedAllReduceOptions result;
  result.codecs.codec = name;
  result.codecs.quantize_logits = options.quantize_logits;
  if (is_ternary) {
    result.codecs.codec = ternary_spec({.clip_factor = options.clip_factor, .format = ternary_format_from(name)});
  }
  return result;
}

}  // namespace terngrad
