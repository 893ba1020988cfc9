// Options: "KEY=VALUE KEY=VALUE ..." with the names and values of the commands.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Each key is asked for once, whether the text has it or not; then finish refuses what was not asked for. Every
/// refusal is an InvalidArgument that names the key and what is accepted.
class Options {
 public:
  /// @param text  null: none. @throws InvalidArgument for a word that is not KEY=VALUE
  explicit Options(const char* text);

  /// @param value  the default
  std::string text(const char* key, const std::string& value);
  std::uint64_t number(const char* key, std::uint64_t value);
  bool flag(const char* key, bool value);
  /// All values of a key that may be given several times, in order.
  std::vector<std::string> all(const char* key);
  /// One of some values, by the words that `to_word` gives them. @param value  the default
  template <class Value, class ToWord>
  Value choice(const char* key, Value value, std::initializer_list<Value> values, const ToWord& to_word) {
    const std::string word = text(key, to_word(value));
    std::string accepted;
    for (const Value each : values) {
      if (word == to_word(each)) return each;
      accepted += (accepted.empty() ? "" : ", ") + std::string(to_word(each));
    }
    TERNGRAD_THROW(InvalidArgument, "option ", key, "=", word, " is refused; accepted: ", accepted);
  }

  /// What was not asked for, each key once. @param keys  those that are accepted besides
  std::vector<std::pair<std::string, std::string>> rest(const std::vector<std::string>& keys);
  /// Refuses what was not asked for.
  void finish() { rest({}); }

 private:
  struct Word {
    std::string key, value;
    bool is_taken = false;
  };
  std::vector<Word> words_;
  std::vector<std::string> keys_;  // asked for
};

}  // namespace terngrad::capi
