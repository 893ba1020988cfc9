#include "compress/codec/codec_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/read_number.h"

namespace terngrad {
namespace {

constexpr const char* kAcceptedSpecs = "NAME or NAME:KEY=VALUE,KEY=VALUE, such as ternary:clip_factor=2.5,format=t5";

/// True if a name, key or value may contain the character. Does not use <cctype>, which depends on the locale.
bool is_spec_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '+' || c == '.';
}

bool is_spec_word(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_spec_character); }

/// Removes the text before the next `separator`, and the separator, from `text`. @returns the text before it
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

const std::string* find_value(const SpecOptions& options, std::string_view key) {
  const auto found = std::ranges::find(options, key, &SpecOptions::value_type::first);
  return found == options.end() ? nullptr : &found->second;
}

/// The shortest text that parses to the number.
template <class Number>
std::string number_text(Number number) {
  if (number == 0) number = 0;  // not "-0", which compares equal
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

template <class Number>
std::string range_text(const char* kind, Number least, Number most) {
  if (most == std::numeric_limits<Number>::max()) return std::string(kind) + " of at least " + number_text(least);
  return std::string(kind) + " from " + number_text(least) + " to " + number_text(most);
}

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

CodecSpec parse_codec_spec(std::string_view text) {
  const auto refuse = [&](const std::string& problem) {
    TERNGRAD_THROW(InvalidArgument, "[codec] '", text, "' is no codec spec: ", problem, "; accepted: ", kAcceptedSpecs);
  };
  std::string_view rest = text;
  CodecSpec spec{.name = std::string(take_until(rest, ':'))};
  if (spec.name.empty()) refuse("the name of the codec is missing");
  if (!is_spec_word(spec.name)) refuse("'" + spec.name + "' is no name");
  if (rest.empty() && text.ends_with(':')) refuse("nothing follows ':'");
  while (!rest.empty()) {
    const bool is_last = rest.find(',') == std::string_view::npos;
    std::string_view value = take_until(rest, ',');
    if (!is_last && rest.empty()) refuse("nothing follows the last ','");
    const std::string option(value);
    const std::string_view key = take_until(value, '=');
    if (option.find('=') == std::string::npos || !is_spec_word(key) || !is_spec_word(value)) {
      refuse("'" + option + "' is not KEY=VALUE");
    }
    if (find_value(spec.options, key) != nullptr) refuse("the key '" + std::string(key) + "' is given twice");
    spec.options.emplace_back(key, value);
  }
  return spec;
}

std::string to_string(const CodecSpec& spec) {
  std::string text = spec.name;
  char separator = ':';
  for (const auto& [key, value] : spec.options) {
    text += separator;
    text.append(key).append("=").append(value);
    separator = ',';
  }
  return text;
}

SpecReader::SpecReader(CodecSpec spec, SpecOptions defaults) : spec_(std::move(spec)), defaults_(std::move(defaults)) {}

const std::string* SpecReader::text_of(const char* key) const {
  TERNGRAD_REQUIRE(std::ranges::find(keys_, key, &SpecKey::name) == keys_.end(), "[SpecReader] the key '", key, "' of ",
                   spec_.name, " was read already");
  const std::string* given = find_value(spec_.options, key);
  return given != nullptr ? given : find_value(defaults_, key);
}

SpecKey& SpecReader::add(const char* key, std::string default_value, std::string accepted, const char* meaning,
                         std::string value) {
  keys_.push_back({.name = key,
                   .default_value = std::move(default_value),
                   .accepted = std::move(accepted),
                   .meaning = meaning,
                   .value = std::move(value)});
  return keys_.back();
}

void SpecReader::refuse(const char* key, const std::string& text, const std::string& problem,
                        const std::string& accepted) const {
  TERNGRAD_THROW(InvalidArgument, "[", spec_.name, "] ", key, "=", text, " is refused",
                 problem.empty() ? "" : ": " + problem, "; accepted: ", accepted);
}

template <class Number, class Accepts>
Number SpecReader::read(const char* key, Number value, const std::string& accepted, const char* meaning,
                        const Accepts& accepts) {
  const std::string* text = text_of(key);
  std::string default_value = number_text(value);
  if (text != nullptr) {
    const ReadNumber<Number> read = read_number<Number>(*text);
    if (!read.number || !accepts(*read.number)) refuse(key, *text, read.problem, accepted);
    value = *read.number;
  }
  add(key, std::move(default_value), accepted, meaning, number_text(value));
  return value;
}

double SpecReader::number(const char* key, double value, double least, double most, const char* meaning) {
  return read(key, value, range_text("a number", least, most), meaning,
              [=](double number) { return number >= least && number <= most; });
}

std::int64_t SpecReader::integer(const char* key, std::int64_t value, std::int64_t least, std::int64_t most,
                                 const char* meaning, std::int64_t multiple_of) {
  std::string accepted = range_text("an integer", least, most);
  if (multiple_of > 1) accepted += " that is a multiple of " + number_text(multiple_of);
  return read(key, value, accepted, meaning,
              [=](std::int64_t number) { return number >= least && number <= most && number % multiple_of == 0; });
}

int SpecReader::choose(const char* key, int value, std::span<const std::string> words, const char* meaning) {
  TERNGRAD_REQUIRE(value >= 0, "[SpecReader] the default of '", key, "' of ", spec_.name, " is none of its words");
  const std::string* text = text_of(key);
  const std::string& default_value = words[static_cast<std::size_t>(value)];
  const std::string accepted = "one of " + joined(words);
  if (text != nullptr) {
    const auto found = std::ranges::find(words, *text);
    if (found == words.end()) refuse(key, *text, "", accepted);
    value = static_cast<int>(found - words.begin());
  }
  add(key, default_value, accepted, meaning, words[static_cast<std::size_t>(value)]).words = {words.begin(),
                                                                                              words.end()};
  return value;
}

bool SpecReader::flag(const char* key, bool value, const char* meaning) {
  return choice(key, value, {{"false", false}, {"true", true}}, meaning);
}

void SpecReader::require_for(const char* key, bool holds, const char* needs) {
  const auto found = std::ranges::find(keys_, key, &SpecKey::name);
  TERNGRAD_REQUIRE(found != keys_.end(), "[SpecReader] the key '", key, "' of ", spec_.name, " was not read");
  found->applies = holds;
  if (holds || find_value(spec_.options, key) == nullptr || found->value == found->default_value) return;
  TERNGRAD_THROW(InvalidArgument, "[", spec_.name, "] ", key, "=", found->value, " has no effect here: it needs ",
                 needs, "; accepted without: ", key, "=", found->default_value, ", its default");
}

void SpecReader::omit_default(const char* key) {
  const auto found = std::ranges::find(keys_, key, &SpecKey::name);
  TERNGRAD_REQUIRE(found != keys_.end(), "[SpecReader] the key '", key, "' of ", spec_.name, " was not read");
  found->applies = found->applies && found->value != found->default_value;
}

std::int64_t SpecReader::rotation(std::int64_t value) {
  const bool may_be_off = value == 0;
  std::vector<std::int64_t> runs = {64, 128, 256, 512, 1024, 2048, 4096};
  if (may_be_off) runs.insert(runs.begin(), 0);
  std::vector<std::string> words(runs.size());
  std::ranges::transform(runs, words.begin(), [](std::int64_t run) { return std::to_string(run); });
  const auto by_default = static_cast<int>(std::ranges::find(runs, value) - runs.begin());
  const int chosen = choose("rotate", by_default, words,
                            may_be_off ? "elements of a run that is rotated at random before it is encoded; 0: none are"
                                       : "elements of a run that is rotated at random before it is encoded");
  if (may_be_off) omit_default("rotate");
  return runs[static_cast<std::size_t>(chosen)];
}

void SpecReader::finish() const {
  std::string known;
  for (const SpecKey& key : keys_) known += (known.empty() ? "" : ", ") + key.name;
  for (const auto& [key, value] : spec_.options) {
    if (std::ranges::find(keys_, key, &SpecKey::name) != keys_.end()) continue;
    TERNGRAD_THROW(InvalidArgument, "[", spec_.name, "] there is no key '", key,
                   "'; accepted: ", known.empty() ? "none, the codec has no options" : known);
  }
}

CodecSpec SpecReader::canonical() const {
  CodecSpec spec{.name = spec_.name};
  for (const SpecKey& key : keys_) {
    if (key.applies) spec.options.emplace_back(key.name, key.value);
  }
  return spec;
}

}  // namespace terngrad
