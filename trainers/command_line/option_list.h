// The options of a command for programs: what documentation, plots and recipes know of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainers/command_line/option_declaration.h"

namespace terngrad {

class OptionSet;

/// What a program may be told of an option (OptionSet::descriptions).
struct OptionDescription {
  std::string name;
  std::string group;
  std::string help;
  std::string type;        // flag, integer, number, text or list
  std::string accepted;    // "one of auto, on, off"; empty: anything of its type
  std::string value_name;  // as --help shows it
  std::string default_text;
  std::vector<std::string> aliases;
  OptionRole role = OptionRole::kResult;
  bool is_compared = true;           // by plots
  std::vector<std::string> entries;  // of the identity, by key
  std::vector<std::string> needs;
  std::string original;       // what became of the original's option; empty: it has none
  std::string original_name;  // of it there
};

/// "result", "start", "speed", "report" or "place".
std::string_view to_string(OptionRole role);

/// Roles and entries of the identity count in runs of terngrad_train alone.
/// JSON of an object with two lists: `options`, an object for each OptionDescription in order of declaration, with its
/// names, and `refused` of names and reasons.
std::string option_list_json(const OptionSet& options);

}  // namespace terngrad
