// Options of the TernGrad codec as the keys of a spec.
#pragma once

#include <string>

#include "compress/codec/codec_spec.h"
#include "compress/codecs/ternary_codec.h"

namespace terngrad {

/// Reads all keys of ternary; num_workers is not a key. @param defaults  for keys that the spec does not name
/// @throws InvalidArgument as SpecReader
TernaryOptions read_ternary_options(SpecReader& reader, TernaryOptions defaults = {});

/// The spec of `options` with all values except num_workers, which belongs to the run.
/// @throws InvalidArgument for a format that specs cannot name
std::string ternary_spec(const TernaryOptions& options);

}  // namespace terngrad
