// OptionSet: the options of a command, each declared once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainers/command_line/option_constraint.h"
#include "trainers/command_line/option_declaration.h"
#include "trainers/command_line/option_value.h"

namespace terngrad {

struct HelpEntry;
struct IdentityEntry;
struct OptionDescription;

/// Returns the text that a command prints for a question such as --help, in lines of at most `width` characters.
using OptionAnswer = std::function<std::string(int width)>;

/// Result of OptionSet::parse.
struct ParseResult {
  bool help_requested = false;
  bool version_requested = false;
  OptionAnswer answer = {};         // answer to the last question that was asked, if any
  std::size_t num_positionals = 0;  // number of given positional arguments
};

/// Declares options over variables, and fills the variables from a command line. A variable's value at declaration is
/// the option's default.
///
///   options.group("Compression");
///   options.add("grad_bits", &o.grad_bits, "bits per gradient element on the wire", one_of({1, 2, 4, 8, 16, 32}));
///   options.add_flag("quantize_logits", &o.quantize_logits, "compress the logits' gradients too");
///   options.add("codec_for", &o.codec_for, "PATTERN=SPEC; may be repeated, first match wins");
///   const ParseResult result = options.parse(argc, argv);
///
/// Syntax: `--name value` or `--name=value`, names in full; `-h` is `--help`. A flag is bare or has the value true or
/// false (also True, TRUE, 1, and so on); `--noname` is `--name=false`.
/// `--config FILE` reads lines `name = value` with the same names (bare names for flags, `#` begins a comment line).
/// Numbers are decimal and finite. If the command line repeats an option, every value must be valid and the last one
/// counts; an option over a vector collects all. Later files override earlier ones, and the command line overrides
/// files; a repetition within a file is an error. The constructor declares --config, --help, --version and
/// --list_options_json.
class OptionSet {
 public:
  /// @param usage  first lines of --help
  explicit OptionSet(std::string usage);
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  /// Options declared after this call appear under this caption in --help.
  void group(std::string caption);

  /// Declares `--name` over `*target`, which must outlive this object. @throws InvalidArgument for a name that is
  /// declared already, or a default that the constraint refuses
  OptionDeclaration add(std::string name, std::int32_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::int64_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::uint64_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, double* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::string* target, std::string help, Constraint constraint = {});
  /// Declares a repeatable option: values in the order given. The constraint applies to each value.
  OptionDeclaration add(std::string name, std::vector<std::string>* target, std::string help,
                        Constraint constraint = {});
  /// Declares an option whose value is one of `words`. @param choose  called with the index of the given word. @param
  /// word  returns the current word
  OptionDeclaration add_words(std::string name, std::string help, std::vector<std::string> words,
                              std::function<void(std::size_t index)> choose, std::function<std::string()> word);
  OptionDeclaration add_flag(std::string name, bool* target, std::string help);
  /// Declares the next positional argument, such as a file name; it is required. Positional arguments may stand
  /// anywhere between options and do not begin with '-'. @param target  must outlive this object
  void add_positional(std::string name, std::string* target, std::string help);
  /// Declares a question `--name`, like --help: the command prints the answer and exits. Allowed on the command line
  /// only, and not part of values().
  void add_question(std::string name, std::string help, OptionAnswer answer);

  /// Handle to a declared option, to set more of its properties. @throws InvalidArgument if it is not declared
  OptionDeclaration declaration(std::string_view name);

  /// Declares a name that is always refused with `reason`, which says what to do instead: for options that users know
  /// from other programs. @throws InvalidArgument for a name that is declared already
  void refuse(std::string name, std::string reason);

  /// Parses a command line; argv[0] is the program. An invalid option is refused even next to --help.
  /// @throws UsageError of one line that names the option, the value and the accepted values, and file and line of a
  /// config file: for an option that is unknown (with the nearest known name), lacks its value or is repeated in a
  /// file, for a refused value, an unexpected argument, or a missing positional argument (unless a question is asked).
  /// Some variables may already be assigned then
  ParseResult parse(int argc, const char* const* argv);

  /// True if the user set the option. @throws InvalidArgument if it is not declared
  bool was_set(std::string_view name) const;
  /// True if the user set the option to a value other than its default. The default is the neutral value: giving it
  /// explicitly counts as not given. @throws InvalidArgument if it is not declared
  bool was_changed(std::string_view name) const;
  /// Replaces the default, for defaults that depend on another option: --help and values() show it, and it is assigned
  /// to the variable unless the user set the option. @throws InvalidArgument if the option does not accept it
  void set_default(std::string_view name, const std::string& value);

  /// The text of --help: groups of options with defaults and accepted values. @param width  characters in a line
  std::string help(int width = 80) const;
  /// Every option but positional arguments, --config, --help, --version and other questions, in order of declaration.
  std::vector<OptionValue> values() const;
  /// Refuses changed options (was_changed) with unmet needs.
  /// @throws UsageError naming the first such option, its value, its need and its default
  void require_needs() const;

  /// The identity of a run with the current values: the entries of all options with OptionRole::kResult, in order of
  /// declaration, with entries that set is_compared_last at the end.
  std::vector<IdentityEntry> identity() const;
  /// Descriptions of the options of values(), in the same order.
  std::vector<OptionDescription> descriptions() const;
  /// Names that are always refused, and the reasons, in order of declaration.
  const std::vector<std::pair<std::string, std::string>>& refused() const { return refused_; }

 private:
  friend class OptionDeclaration;
  struct Option {
    std::string name;
    std::string group;
    std::string help;
    std::string value_name;
    std::string accepted;  // Constraint::accepted
    OptionScalar default_value;
    OptionRole role = OptionRole::kResult;
    bool is_compared = true;               // false after not_compared()
    std::vector<OptionIdentity> identity;  // empty: the option's value under its name
    std::vector<OptionNeed> needs;
    std::string original;
    std::string original_name;
    std::optional<OptionScalar> given;  // the user's value; a command may change the variable
    bool is_flag = false;
    bool is_repeatable = false;
    bool is_built_in = false;  // --config and questions, which are not settings of a run
    // Parses and stores a value. Returns an empty string, or if it refuses the value the words to append to "'value' is
    // refused", e.g. ", expected true or false".
    std::function<std::string(const std::string& text)> assign;
    std::function<OptionScalar()> value;
    std::function<void()> clear;  // repeatable options: called before the user's first value
  };
  struct Positional {
    std::string name;  // "FILE"
    std::string* target;
    std::string help;
  };
  struct Given {
    std::string name;
    std::string value;  // "true" for a bare flag
    std::string place;  // "--name" or "FILE:12: name": begins each message about the option
  };
  enum class Repeated { kLastCounts, kRefused };

  template <class Number>
  OptionDeclaration add_number(std::string name, Number* target, std::string help, Constraint constraint);
  Option& declare(std::string name, std::string help, std::string value_name);
  OptionDeclaration declared_last();
  void alias(std::string alias, std::string name);
  static std::optional<IdentityEntry> identity_entry(const Option& option, const OptionIdentity& identity);
  static const OptionNeed* find_unmet(const Option& option);
  const Option& declared(std::string_view name) const;
  const Option* find(std::string_view name) const;
  Option* find(std::string_view name);
  std::string nearest(std::string_view name) const;
  [[noreturn]] void refuse_unknown(const Given& given, std::string_view prefix) const;
  /// Joins flags with their values, by "=", and writes --noname as --name=false.
  std::vector<std::string> join_flags(std::vector<std::string> arguments) const;
  /// Reads the command line into a list, and assigns the positional arguments.
  std::vector<Given> read_command_line(int argc, const char* const* argv, ParseResult& result) const;
  void require_positionals(std::size_t num_given) const;
  std::vector<Given> read_config_file(const std::string& path) const;
  void apply(const std::vector<Given>& given, Repeated repeated);
  HelpEntry help_entry(const Option& option) const;

  std::string usage_;
  std::string current_group_ = "Options";
  std::vector<std::string> config_files_;
  bool help_ = false;
  bool version_ = false;
  OptionAnswer answer_;  // answer to the last question
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  std::vector<std::pair<std::string, std::string>> refused_;  // name, reason
};

/// Levenshtein distance: the number of insertions, deletions and replacements of characters that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

}  // namespace terngrad
