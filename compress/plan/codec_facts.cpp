#include "compress/plan/codec_facts.h"

#include <algorithm>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

struct Variant {
  std::string word;  // "key=word"
  CodecTraits traits;
};

/// The variants other than the defaults.
std::vector<Variant> variants_of(const std::string& name) {
  std::vector<Variant> variants;
  for (const std::string& spec : codec_variants(name)) {
    if (spec != name) variants.push_back({spec.substr(name.size() + 1), make_codec(spec, {})->traits()});
  }
  return variants;
}

template <class Holds>
CodecFact fact_of(const CodecTraits& defaults, const std::vector<Variant>& variants, const Holds& holds) {
  CodecFact fact{.by_default = holds(defaults)};
  for (const Variant& variant : variants) {
    if (holds(variant.traits) != fact.by_default) fact.changed_by.push_back(variant.word);
  }
  return fact;
}

}  // namespace

std::vector<std::string> codec_variants(const std::string& name) {
  std::vector<std::string> specs = {name};
  for (const SpecKey& key : codec_keys(name)) {
    for (const std::string& word : key.words) {
      if (word == key.default_value) continue;
      const std::string spec = to_string(CodecSpec{name, {{key.name, word}}});
      try {
        make_codec(spec, {});
        specs.push_back(spec);
      } catch (const InvalidArgument&) {
        // The word needs a non-default value of another key.
      }
    }
  }
  return specs;
}

CodecFacts codec_facts(const std::string& name) {
  const CodecTraits defaults = make_codec(name, {})->traits();
  const std::vector<Variant> variants = variants_of(name);
  CodecFacts facts{.unbiased = fact_of(defaults, variants, [](const CodecTraits& t) { return t.unbiased; }),
                   .summable = fact_of(defaults, variants, [](const CodecTraits& t) { return t.summable; }),
                   .sums_as_float = defaults.sums_as_float};
  if (defaults.fixed_size) {
    facts.bits.push_back(defaults.bits_per_element);
  } else {
    facts.most_bits = defaults.bits_per_element;
  }
  for (const Variant& variant : variants) {
    if (variant.traits.fixed_size) {
      facts.bits.push_back(variant.traits.bits_per_element);
    } else if (defaults.fixed_size) {
      facts.varying_by.push_back(variant.word);
    }
  }
  std::ranges::sort(facts.bits);
  facts.bits.erase(std::unique(facts.bits.begin(), facts.bits.end()), facts.bits.end());
  return facts;
}

}  // namespace terngrad
