// The options of the TernGrad codec as the keys of a spec.
#pragma once

#include <string>

#include "compress/codec/codec_spec.h"
#include "compress/codecs/ternary_codec.h"

namespace terngrad {

/// Reads all keys of ternary. num_workers is not among them. @param defaults  of the keys that the spec does not name
/// @throws InvalidArgument as SpecReader
TernaryOptions read_ternary_options(SpecReader& reader, TernaryOptions defaults = {});

/// The spec that stands for `options`, with all values; num_workers, which is the run's, aside.
/// @throws InvalidArgument for a format that no spec names
std::string ternary_spec(const TernaryOptions& options);

}  // namespace terngrad
