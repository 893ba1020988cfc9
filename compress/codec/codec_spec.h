// CodecSpec: a codec and its options as text, and SpecReader, by which a codec reads them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace terngrad {

/// Keys and their values.
using SpecOptions = std::vector<std::pair<std::string, std::string>>;

/// A codec by name, with values for some of its keys: "ternary:clip_factor=2.5,format=t5".
struct CodecSpec {
  std::string name;
  SpecOptions options = {};  // in the order given, each key once

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

/// Reads NAME or NAME:KEY=VALUE,KEY=VALUE,... Names, keys and values are of letters, digits, '_', '-', '+' and '.';
/// whether there is such a codec, and what its keys accept, is not looked at.
/// @throws InvalidArgument in one line that says what is wrong and what is accepted
CodecSpec parse_codec_spec(std::string_view text);

/// The text that parse_codec_spec reads as `spec`.
std::string to_string(const CodecSpec& spec);

/// One key of a codec, as the codec's own reading declares it.
struct SpecKey {
  std::string name;
  std::string default_value;
  std::string accepted;  // "a number of at least 0", "one of paper, original"
  std::string meaning;
  std::vector<std::string> words = {};  // all that is accepted, of a choice
  std::string value;                    // in the spec that is read, written as its canonical text has it
  bool applies = true;                  // whether it has an effect beside the other values
};

/// A word of a spec and what it stands for.
template <class Value>
struct SpecWord {
  const char* word;
  Value value;
};

/// Reads the options of a spec with their types. A codec asks for each of its keys once, whether the spec has it or
/// not, so that what it asks for is also the list of its keys:
///
///   options.bits = static_cast<int>(reader.integer("bits", 4, 2, 8, "of an element"));
///   reader.finish();
///
/// Every refusal is an InvalidArgument of one line that names the codec, the key and what is accepted.
class SpecReader {
 public:
  /// @param defaults  values in place of the codec's own defaults, for those of its keys that `spec` does not name
  explicit SpecReader(CodecSpec spec, SpecOptions defaults = {});

  /// A finite number, least <= number <= most. @param value  the default
  double number(const char* key, double value, double least, double most, const char* meaning);
  /// @param multiple_of  what it has to be a multiple of
  std::int64_t integer(const char* key, std::int64_t value, std::int64_t least, std::int64_t most, const char* meaning,
                       std::int64_t multiple_of = 1);
  /// "true" or "false".
  bool flag(const char* key, bool value, const char* meaning);
  /// One of some words. @param value  the default, one of theirs
  template <class Value>
  Value choice(const char* key, Value value, std::initializer_list<SpecWord<Value>> words, const char* meaning) {
    std::vector<const char*> names;
    int index = -1;
    for (const SpecWord<Value>& each : words) {
      if (index < 0 && each.value == value) index = static_cast<int>(names.size());
      names.push_back(each.word);
    }
    return words.begin()[choose(key, index, names, meaning)].value;
  }

  /// Says that a key, which was read, has an effect only under a condition. Where it has none, the spec may name it
  /// with its default only. @param needs  the condition in words, e.g. "scope=block"
  void require_for(const char* key, bool holds, const char* needs);

  /// Leaves a key, which was read, out of the canonical text where it has its default: for keys that came after texts
  /// which are kept.
  void omit_default(const char* key);

  /// The key of codecs that rotate: elements of a run, or 0 (Codec::rotation).
  std::int64_t rotation(std::int64_t value);

  /// Refuses every option that was not asked for, naming the keys that were.
  void finish() const;

  /// The keys read so far, in their order.
  const std::vector<SpecKey>& keys() const { return keys_; }
  /// The spec with the values of all keys that apply: equal for specs of equal meaning, and read as the same codec.
  CodecSpec canonical() const;

 private:
  /// The key's value in the spec, or the default from outside; null: there is neither.
  const std::string* text_of(const char* key) const;
  SpecKey& add(const char* key, std::string default_value, std::string accepted, const char* meaning,
               std::string value);
  [[noreturn]] void refuse(const char* key, const std::string& text, const std::string& problem,
                           const std::string& accepted) const;
  template <class Number, class Accepts>
  Number read(const char* key, Number value, const std::string& accepted, const char* meaning, const Accepts& accepts);
  int choose(const char* key, int value, std::span<const char* const> words, const char* meaning);

  CodecSpec spec_;
  SpecOptions defaults_;
  std::vector<SpecKey> keys_;
};

}  // namespace terngrad
