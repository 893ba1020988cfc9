// The codecs that tools measure beside each other.
#pragma once

#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// "fp32", "bf16", and ternary in two formats: "t2" (2 bits per element) and "t5" (1.6 bits).
std::vector<std::string> compared_codec_names();

/// What they have in common.
struct ComparedCodecOptions {
  double clip_factor = 2.5;      // of ternary
  bool quantize_logits = false;  // of all but fp32
};

/// Options of an exchange with one of them; all else is the default. @throws InvalidArgument for another name
CompressedAllReduceOptions compared_codec(const std::string& name, const ComparedCodecOptions& options);

}  // namespace terngrad
