// Options whose values are the words of an enumeration.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/runtime/choices.h"
#include "trainers/command_line/option_set.h"

namespace terngrad {

/// Declares an option over `target` whose values are the words of its enumeration.
template <class Enum>
OptionDeclaration add_choice(OptionSet& options, const std::string& name, Enum* target, const std::string& help) {
  return options.add_words(
      name, help, choice_words<Enum>(), [target](std::size_t index) { *target = choices_of<Enum>()[index].value; },
      [target] { return word_of(*target); });
}

}  // namespace terngrad
