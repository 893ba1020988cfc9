// CodecSpec: a codec and its options as text. SpecReader: typed access to these options.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/choices.h"

namespace terngrad {

/// Pairs of key and value.
using SpecOptions = std::vector<std::pair<std::string, std::string>>;

/// A codec by name, with values for some of its keys: "ternary:clip_factor=2.5,format=t5".
struct CodecSpec {
  std::string name;
  SpecOptions options = {};  // in the order given, each key once

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

/// Parses NAME or NAME:KEY=VALUE,KEY=VALUE,... Names, keys and values consist of letters, digits, '_', '-', '+' and
/// '.'. Does not check that the codec exists or accepts the keys and values.
/// @throws InvalidArgument with one line that says what is wrong and what is accepted
CodecSpec parse_codec_spec(std::string_view text);

/// The text that parse_codec_spec reads as `spec`.
std::string to_string(const CodecSpec& spec);

/// One key of a codec, as declared by the codec's read from a SpecReader.
struct SpecKey {
  std::string name;
  std::string default_value;
  std::string accepted;  // "a number of at least 0", "one of paper, original"
  std::string meaning;
  std::vector<std::string> words = {};  // accepted values of a choice
  std::string value;                    // value in the spec, in canonical form
  bool applies = true;                  // false if it has no effect with the other values
};

/// Reads the options of a spec with their types. A codec reads each of its keys once, whether or not the spec has it,
/// so that the reads also declare the list of keys:
///
///   options.bits = static_cast<int>(reader.integer("bits", 4, 2, 8, "of an element"));
///   reader.finish();
///
/// Every error is an InvalidArgument of one line that names the codec, the key and the accepted values.
class SpecReader {
 public:
  /// @param defaults  override the codec's own defaults of keys that `spec` does not name
  explicit SpecReader(CodecSpec spec, SpecOptions defaults = {});

  /// A finite number in [least, most]. @param value  the default
  double number(const char* key, double value, double least, double most, const char* meaning);
  /// An integer in [least, most]. @param multiple_of  required divisor
  std::int64_t integer(const char* key, std::int64_t value, std::int64_t least, std::int64_t most, const char* meaning,
                       std::int64_t multiple_of = 1);
  /// "true" or "false".
  bool flag(const char* key, bool value, const char* meaning);
  /// One of the given words. @param value  the default, the value of one of them
  template <class Value>
  Value choice(const char* key, Value value, std::initializer_list<Choice<Value>> words, const char* meaning) {
    std::vector<std::string> names;
    int index = -1;
    for (const Choice<Value>& each : words) {
      if (index < 0 && each.value == value) index = static_cast<int>(names.size());
      names.emplace_back(each.word);
    }
    return words.begin()[choose(key, index, names, meaning)].value;
  }

  /// Declares that a key, read before, has an effect only if a condition holds. If it does not hold, the spec may give
  /// the key only its default. @param needs  the condition in words, e.g. "scope=block"
  void require_for(const char* key, bool holds, const char* needs);

  /// Omits a key, read before, from the canonical text while it has its default: for keys added after canonical texts
  /// were already stored.
  void omit_default(const char* key);

  /// Reads the key "rotate" of codecs that rotate: the run length, or 0 for none (Codec::rotation). 0 is accepted only
  /// where it is the default.
  std::int64_t rotation(std::int64_t value);

  /// Refuses every option of the spec that was not read, naming the known keys.
  void finish() const;

  /// The keys read so far, in their order.
  const std::vector<SpecKey>& keys() const { return keys_; }
  /// The spec with the values of all keys that apply. Specs with the same meaning have equal canonical specs, which
  /// stand for the same codec.
  CodecSpec canonical() const;

 private:
  /// The key's value in the spec, or in the defaults given to the constructor; null if neither has it.
  const std::string* text_of(const char* key) const;
  SpecKey& add(const char* key, std::string default_value, std::string accepted, const char* meaning,
               std::string value);
  [[noreturn]] void refuse(const char* key, const std::string& text, const std::string& problem,
                           const std::string& accepted) const;
  template <class Number, class Accepts>
  Number read(const char* key, Number value, const std::string& accepted, const char* meaning, const Accepts& accepts);
  int choose(const char* key, int value, std::span<const std::string> words, const char* meaning);

  CodecSpec spec_;
  SpecOptions defaults_;
  std::vector<SpecKey> keys_;
};

}  // namespace terngrad
