// Choices: options whose values are words for the enumerators of an enumeration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainers/command_line/option_set.h"

namespace terngrad {

/// An enumerator and its word.
template <class Enum>
struct Choice {
  std::string_view word;
  Enum value;
};

/// The choices of an enumeration, in the order of --help. Specialised per enumeration, with a static kAll.
template <class Enum>
struct Choices;

template <class Enum>
std::span<const Choice<Enum>> choices_of() {
  return Choices<Enum>::kAll;
}

/// The word of an enumerator.
template <class Enum>
std::string word_of(Enum value) {
  return std::string(std::ranges::find(choices_of<Enum>(), value, &Choice<Enum>::value)->word);
}

/// The words of all enumerators.
template <class Enum>
std::vector<std::string> choice_words() {
  std::vector<std::string> words;
  for (const Choice<Enum>& choice : choices_of<Enum>()) words.emplace_back(choice.word);
  return words;
}

/// Declares an option over `target` whose values are the words of its enumeration.
template <class Enum>
OptionDeclaration add_choice(OptionSet& options, const std::string& name, Enum* target, const std::string& help) {
  return options.add_words(
      name, help, choice_words<Enum>(), [target](std::size_t index) { *target = choices_of<Enum>()[index].value; },
      [target] { return word_of(*target); });
}

}  // namespace terngrad
