// All codecs and presets as JSON.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/status.h"
#include "compress/plan/codec_facts.h"
#include "compress/plan/codec_presets.h"
#include "compress/plan/codec_registry.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

// Declared before the template for lists that calls them.
std::string to_json(const CodecFact& fact);
std::string to_json(const SpecKey& key);
std::string to_json(const CodecEntry& entry);
std::string to_json(const CodecPreset& preset);

std::string to_json(const std::string& text) { return quoted(text); }
std::string to_json(bool value) { return value ? "true" : "false"; }
/// The shortest decimal text that parses to the same double.
std::string to_json(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

using Members = std::vector<std::pair<const char*, std::string>>;
std::string to_json(const Members& members) {
  std::string result;
  for (const auto& [name, value] : members) result += (result.empty() ? "" : ", ") + quoted(name) + ": " + value;
  return "{" + result + "}";
}

template <class Range>
std::string list(const Range& values) {
  std::string result;
  for (const auto& value : values) result += (result.empty() ? "" : ", ") + to_json(value);
  return "[" + result + "]";
}

std::string to_json(const CodecFact& fact) {
  return to_json(Members{{"by_default", to_json(fact.by_default)}, {"changed_by", list(fact.changed_by)}});
}

std::string to_json(const SpecKey& key) {
  return to_json(Members{{"name", quoted(key.name)},
                         {"default", quoted(key.default_value)},
                         {"accepted", quoted(key.accepted)},
                         {"meaning", quoted(key.meaning)}});
}

std::string to_json(const CodecEntry& entry) {
  const CodecFacts facts = codec_facts(entry.name);
  return to_json(Members{{"name", quoted(entry.name)},
                         {"summary", quoted(entry.summary)},
                         {"source", quoted(entry.source)},
                         {"bits_per_element", list(facts.bits)},
                         {"varying_by", list(facts.varying_by)},
                         {"most_bits", to_json(facts.most_bits)},
                         {"unbiased", to_json(facts.unbiased)},
                         {"summable", to_json(facts.summable)},
                         {"sums_as_float", to_json(facts.sums_as_float)},
                         {"runs_on_gpus", to_json(entry.runs_on_gpus)},
                         {"keys", list(codec_keys(entry.name))}});
}

std::string to_json(const CodecPreset& preset) {
  return to_json(Members{{"name", quoted(preset.name)},
                         {"summary", quoted(preset.summary)},
                         {"spec", quoted(preset.spec)},
                         {"memory", quoted(preset.memory)}});
}

}  // namespace

extern "C" tg_status tg_codec_list(char* text, int64_t capacity, int64_t* needed) {
  return guard([&] {
    const std::string json = to_json(Members{{"codecs", list(codec_entries())}, {"presets", list(codec_presets())}});
    const auto size = static_cast<std::int64_t>(json.size() + 1);
    if (needed != nullptr) *needed = size;
    if (capacity == 0) return;
    TERNGRAD_REQUIRE(capacity >= size, "capacity is ", capacity, ", the list needs ", size);
    deref(text, "text");
    std::memcpy(text, json.c_str(), json.size() + 1);
  });
}
