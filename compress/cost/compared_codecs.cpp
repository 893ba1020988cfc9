#include "compress/cost/compared_codecs.h"

#include "compress/codecs/ternary_spec.h"
#include "compress/plan/codec_registry.h"

namespace terngrad {

std::vector<std::string> compared_codec_names() { return {"fp32", "bf16", "t2", "t5"}; }

CodecSpec compared_codec_spec(const std::string& name, double clip_factor) {
  const SpecOptions of_ternary = canonical_codec_spec(ternary_spec({.clip_factor = clip_factor})).options;
  if (name == "t2" || name == "t5") return canonical_codec_spec("ternary:format=" + name, of_ternary);
  const bool is_ternary = canonical_codec_spec(name).name == "ternary";
  return canonical_codec_spec(name, is_ternary ? of_ternary : SpecOptions{});
}

CompressedAllReduceOptions compared_codec(const std::string& name, const ComparedCodecOptions& options) {
  CompressedAllReduceOptions result;
  result.codecs.codec = to_string(compared_codec_spec(name, options.clip_factor));
  result.codecs.quantize_logits = options.quantize_logits;
  return result;
}

}  // namespace terngrad
