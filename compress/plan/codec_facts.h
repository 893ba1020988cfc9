// Codec properties for tables of codecs.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

/// A boolean property of a codec.
struct CodecFact {
  bool by_default = false;
  /// "rounding=nearest": options that invert the property, with all other keys at their defaults.
  std::vector<std::string> changed_by = {};
};

/// Properties of a codec over its codec_variants.
struct CodecFacts {
  std::vector<double> bits = {};             // per element, for payloads of fixed size; ascending
  std::vector<std::string> varying_by = {};  // "format=tmask": words that make the payload size depend on
                                             // the data; empty if it does so by default
  double most_bits = 0;                      // maximum per element if the size depends on the data by default; else 0
  CodecFact unbiased = {};                   // CodecTraits::unbiased
  CodecFact summable = {};                   // codes of workers can be added as integers
  bool sums_as_float = false;                // elements of workers can be added in float32
};

/// Specs of the codec with its defaults, and with each word of its keys alone; words that are valid only with other
/// non-default values are omitted.
std::vector<std::string> codec_variants(const std::string& name);

/// @param name  codec in the registry. @throws InvalidArgument for an unknown name
CodecFacts codec_facts(const std::string& name);

}  // namespace terngrad
