// Options: parser of "KEY=VALUE KEY=VALUE ...", with the names and values of the command-line options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/choices.h"
#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Call a getter once for every known key, then `finish`, which rejects all others. Errors are InvalidArgument and name
/// the key and the accepted values.
class Options {
 public:
  /// @param text  null: no options. @throws InvalidArgument for a word that is not KEY=VALUE
  explicit Options(const char* text);

  /// The value of a key. @param value  default
  std::string text(const char* key, const std::string& value);
  std::uint64_t number(const char* key, std::uint64_t value);
  bool flag(const char* key, bool value);
  /// All values of a key that may occur several times, in order.
  std::vector<std::string> all(const char* key);
  /// A value of an enumeration, by its word. @param value  default
  template <class Enum>
  Enum choice(const char* key, Enum value) {
    const std::string word = text(key, word_of(value));
    const std::optional<Enum> found = find_choice<Enum>(word);
    TERNGRAD_REQUIRE(found.has_value(), "option ", key, "=", word, " is refused; accepted: ", accepted_words<Enum>());
    return *found;
  }

  /// The (key, value) pairs that no getter has read. @param keys  accepted keys, of which each may occur once
  std::vector<std::pair<std::string, std::string>> rest(const std::vector<std::string>& keys);
  /// @throws InvalidArgument if an option is left that no getter has read
  void finish() { rest({}); }

 private:
  struct Word {
    std::string key, value;
    bool is_taken = false;
  };
  std::vector<Word> words_;
  std::vector<std::string> keys_;  // keys that getters have read
};

}  // namespace terngrad::capi
