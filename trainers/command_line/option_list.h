// Machine-readable descriptions of a command's options, for documentation, plots and recipes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainers/command_line/option_declaration.h"

namespace terngrad {

class OptionSet;

/// Properties of an option (OptionSet::descriptions).
struct OptionDescription {
  std::string name;
  std::string group;
  std::string help;
  std::string type;        // flag, integer, number, text or list
  std::string accepted;    // "one of auto, on, off"; empty: any value of its type
  std::string value_name;  // placeholder in --help
  std::string default_text;
  std::vector<std::string> aliases;
  OptionRole role = OptionRole::kResult;
  bool is_compared = true;           // true if plots treat other values as other runs
  std::vector<std::string> entries;  // keys of its entries in the identity
  std::vector<std::string> needs;
  std::string original;       // note of OptionDeclaration::original; empty: a new option
  std::string original_name;  // its name there
};

/// "result", "start", "speed", "report" or "place".
std::string_view to_string(OptionRole role);

/// JSON object with two lists: `options` has an object per OptionDescription in order of declaration, `refused` has
/// names and reasons. Roles and identity entries only matter for runs of terngrad_train.
std::string option_list_json(const OptionSet& options);

}  // namespace terngrad
