// Choices: options whose values are the words of an enumeration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainers/command_line/option_set.h"

namespace terngrad {

/// A value of an enumeration and the word that stands for it.
template <class Enum>
struct Choice {
  std::string_view word;
  Enum value;
};

/// The choices of an enumeration, in the order in which --help shows them: to be specialised beside it.
template <class Enum>
struct Choices;

template <class Enum>
std::span<const Choice<Enum>> choices_of() {
  return Choices<Enum>::kAll;
}

/// The word of a value.
template <class Enum>
std::string word_of(Enum value) {
  return std::string(std::ranges::find(choices_of<Enum>(), value, &Choice<Enum>::value)->word);
}

/// The words of all values.
template <class Enum>
std::vector<std::string> choice_words() {
  std::vector<std::string> words;
  for (const Choice<Enum>& choice : choices_of<Enum>()) words.emplace_back(choice.word);
  return words;
}

/// Declares an option whose values are those of `target`, by their words.
template <class Enum>
OptionDeclaration add_choice(OptionSet& options, const std::string& name, Enum* target, const std::string& help) {
  return options.add_words(
      name, help, choice_words<Enum>(), [target](std::size_t index) { *target = choices_of<Enum>()[index].value; },
      [target] { return word_of(*target); });
}

}  // namespace terngrad
