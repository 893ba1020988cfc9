// The default codecs that tools compare.
#pragma once

#include <string>
#include <vector>

#include "compress/codec/codec_spec.h"
#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// Codecs to compare by default: "fp32", "bf16", and ternary in two formats: "t2" (2 bits per element) and "t5" (1.6
/// bits).
std::vector<std::string> compared_codec_names();

/// Options of all compared codecs.
struct ComparedCodecOptions {
  double clip_factor = 2.5;      // for ternary, unless the spec sets it
  bool quantize_logits = false;  // for all codecs except fp32
};

/// Canonical spec for one of these names, or for any spec. @throws InvalidArgument as make_codec
CodecSpec compared_codec_spec(const std::string& name, double clip_factor);

/// Options of an exchange with such a codec; defaults otherwise. @throws InvalidArgument as compared_codec_spec
CompressedAllReduceOptions compared_codec(const std::string& name, const ComparedCodecOptions& options);

}  // namespace terngrad
