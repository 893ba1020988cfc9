// Codecs by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/codecs/codec.h"
#include "compress/codecs/ternary_codec.h"

namespace terngrad {

/// Options of all codecs together; each takes what concerns it.
struct CodecOptions {
  int num_workers = 1;     // N of the run
  TernaryOptions ternary;  // its num_workers is taken from above
};

/// Names that make_codec accepts, in a fixed order.
std::vector<std::string> codec_names();

/// @throws InvalidArgument for an unknown name (naming the known ones) or impossible options
std::unique_ptr<Codec> make_codec(const std::string& name, const CodecOptions& options);

}  // namespace terngrad
