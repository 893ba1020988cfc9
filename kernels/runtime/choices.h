// Choices: the words of an enumeration's values, in options of programs, of Python and of C.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// A value of an enumeration and its word.
template <class Enum>
struct Choice {
  std::string_view word;
  Enum value;
};

/// The values of an enumeration, in the order in which they are listed. Specialised beside the enumeration, with a
/// static kAll.
template <class Enum>
struct Choices;

template <class Enum>
std::span<const Choice<Enum>> choices_of() {
  return Choices<Enum>::kAll;
}

/// The word of a value. @throws InvalidArgument if the enumeration does not have it
template <class Enum>
std::string word_of(Enum value) {
  const auto found = std::ranges::find(choices_of<Enum>(), value, &Choice<Enum>::value);
  TERNGRAD_REQUIRE(found != choices_of<Enum>().end(), "[choices] there is no value ", static_cast<int>(value));
  return std::string(found->word);
}

/// The words of all values.
template <class Enum>
std::vector<std::string> choice_words() {
  std::vector<std::string> words;
  for (const Choice<Enum>& choice : choices_of<Enum>()) words.emplace_back(choice.word);
  return words;
}

/// The value of a word; none for an unknown word.
template <class Enum>
std::optional<Enum> find_choice(std::string_view word) {
  const auto found = std::ranges::find(choices_of<Enum>(), word, &Choice<Enum>::word);
  if (found == choices_of<Enum>().end()) return std::nullopt;
  return found->value;
}

/// "fp32, bf16, sums": all words, for messages.
template <class Enum>
std::string accepted_words() {
  std::string text;
  for (const Choice<Enum>& choice : choices_of<Enum>()) (text += text.empty() ? "" : ", ") += choice.word;
  return text;
}

}  // namespace terngrad
