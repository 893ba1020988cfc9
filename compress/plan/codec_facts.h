// What the specs of a codec are, for tables of codecs.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

/// Whether something holds of a codec.
struct CodecFact {
  bool by_default = false;
  /// "rounding=nearest": words of its keys with which, all else by default, the opposite holds.
  std::vector<std::string> changed_by = {};
};

/// Of a codec with its defaults and with each word of its keys by itself. What numbers change is not looked at, nor
/// are words that need other values beside them.
struct CodecFacts {
  std::vector<double> bits = {};             // per element, of payloads of a fixed size; ascending
  std::vector<std::string> varying_by = {};  // "format=tmask": words with which payloads depend on
                                             // the data, unless they do by default
  double most_bits = 0;                      // per element, of payloads that depend on it by default; else 0
  CodecFact unbiased = {};                   // CodecTraits::unbiased
  CodecFact summable = {};                   // codes of workers add up as integers
  bool sums_as_float = false;                // elements of workers add up in float32
};

/// @param name  in the registry. @throws InvalidArgument for another one
CodecFacts codec_facts(const std::string& name);

}  // namespace terngrad
