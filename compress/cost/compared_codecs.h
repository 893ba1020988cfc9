// The codecs that tools measure beside each other.
#pragma once

#include <string>
#include <vector>

#include "compress/codec/codec_spec.h"
#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// Those that are measured if nobody names others: "fp32", "bf16", and ternary in two formats: "t2" (2 bits per
/// element) and "t5" (1.6 bits).
std::vector<std::string> compared_codec_names();

/// What they have in common.
struct ComparedCodecOptions {
  double clip_factor = 2.5;      // of ternary, where a spec names none
  bool quantize_logits = false;  // of all but fp32
};

/// The spec, with all values, that one of these names or any spec stands for. @throws InvalidArgument as make_codec
CodecSpec compared_codec_spec(const std::string& name, double clip_factor);

/// Options of an exchange with one of them; all else is the default. @throws InvalidArgument as compared_codec_spec
CompressedAllReduceOptions compared_codec(const std::string& name, const ComparedCodecOptions& options);

}  // namespace terngrad
