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

/// What a command prints when it is asked, in lines of at most `width` characters.
using OptionAnswer = std::function<std::string(int width)>;

struct ParseResult {
  bool help_requested = false;
  bool version_requested = false;
  OptionAnswer answer = {};         // to the question that was asked, of several to the last
  std::size_t num_positionals = 0;  // that were given
};

/// Declares options over the variables that hold their values and fills these from a command line. The value a variable
/// has when it is declared is the option's default.
///
///   options.group("Compression");
///   options.add("grad_bits", &o.grad_bits, "bits per gradient element on the wire", one_of({1, 2, 4, 8, 16, 32}));
///   options.add_flag("quantize_logits", &o.quantize_logits, "compress the logits' gradients too");
///   options.add("codec_for", &o.codec_for, "PATTERN=SPEC; may be repeated, first match wins");
///   const ParseResult result = options.parse(argc, argv);
///
/// Syntax: `--name value` or `--name=value`, names in full; a flag is bare, `=true` or `=false`; `-h` is `--help`.
/// `--config FILE` reads lines `name = value` with the same names (bare names for flags, `#` begins a comment line).
/// Numbers are decimal, read in full and finite. Of an option that a command line gives several times the last value
/// counts, though each must be one that is accepted; one over a vector collects them. What a file says counts less than
/// a later file, and than the command line; twice in one file is a mistake. --config, --help, --version and
/// --list_options_json are declared by the constructor.
class OptionSet {
 public:
  /// @param usage  the first lines of --help
  explicit OptionSet(std::string usage);
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  /// Options declared from here on appear under this caption.
  void group(std::string caption);

  /// Declares `--name` over `*target`, which outlives this object. @throws InvalidArgument for a name declared already,
  /// or a default that the constraint refuses
  OptionDeclaration add(std::string name, std::int32_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::int64_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::uint64_t* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, double* target, std::string help, Constraint constraint = {});
  OptionDeclaration add(std::string name, std::string* target, std::string help, Constraint constraint = {});
  /// A repeatable option: values in the order given. The constraint holds for each.
  OptionDeclaration add(std::string name, std::vector<std::string>* target, std::string help,
                        Constraint constraint = {});
  /// One of several words. @param choose  takes the number of the word that was given. @param word  that stands now
  OptionDeclaration add_words(std::string name, std::string help, std::vector<std::string> words,
                              std::function<void(std::size_t index)> choose, std::function<std::string()> word);
  OptionDeclaration add_flag(std::string name, bool* target, std::string help);
  /// Declares an argument that is no option, such as the name of a file: the next one of the command line, which has to
  /// have it. Between options they may stand anywhere; what begins with '-' is none. @param target  outlives this
  /// object
  void add_positional(std::string name, std::string* target, std::string help);
  /// Declares `--name`, which only asks something, as --help does: the command is to print the answer and exit. It
  /// stands on the command line, and is none of values().
  void add_question(std::string name, std::string help, OptionAnswer answer);

  /// Of an option that is declared already, to say more of it. @throws InvalidArgument if it is not
  OptionDeclaration declaration(std::string_view name);

  /// Makes `--name` a known name that is always refused, with `reason`, which says what to do instead: for options of
  /// other programs that users may bring along. @throws InvalidArgument for a name declared already
  void refuse(std::string name, std::string reason);

  /// Parses a command line, argv[0] being the program. Nothing wins over an error: a bad option next to --help is still
  /// refused.
  /// @throws UsageError of one line that names the option, the value and what would be accepted: for an option that is
  /// unknown (with the nearest known name), without value or repeated in a file, a value that is refused, an argument
  /// that is neither an option nor one of add_positional, or one of these that is missing, unless something is only
  /// asked; in a file with its name and line. Variables may then be partly filled
  ParseResult parse(int argc, const char* const* argv);

  /// True if the user set the option. @throws InvalidArgument if it is not declared
  bool was_set(std::string_view name) const;
  /// True if the user set the option to another value than its default. The default is an option's neutral value: where
  /// the option has no effect, it is as good as not given. @throws InvalidArgument if it is not declared
  bool was_changed(std::string_view name) const;
  /// Replaces the default, for defaults that depend on another option: --help and values() show it, and the variable
  /// gets it unless the user set the option. @throws InvalidArgument if the option would not accept it
  void set_default(std::string_view name, const std::string& value);

  /// The text of --help: groups of options with defaults and accepted values. @param width  characters in a line
  std::string help(int width = 80) const;
  /// Every option but positional arguments, --config, --help, --version and other questions, in order of declaration.
  std::vector<OptionValue> values() const;
  /// Refuses options that the user set to another value than their default and that need something that is not there.
  /// @throws UsageError that names the first of them, its value, what it needs and its default
  void require_needs() const;

  /// Of the run that the values make: the entries of all options whose role is OptionRole::kResult, in order of
  /// declaration, those that are compared last behind all others.
  std::vector<IdentityEntry> identity() const;
  /// Of every option of values(), in the same order.
  std::vector<OptionDescription> descriptions() const;
  /// Names that are always refused, with the reasons, in order of declaration.
  const std::vector<std::pair<std::string, std::string>>& refused() const { return refused_; }

 private:
  friend class OptionDeclaration;
  struct Option {
    std::string name;
    std::string group;
    std::string help;
    std::string value_name;
    std::string accepted;  // what the constraint accepts
    OptionScalar default_value;
    OptionRole role = OptionRole::kResult;
    bool is_compared = true;               // if its role is
    std::vector<OptionIdentity> identity;  // empty: its value under its name
    std::vector<OptionNeed> needs;
    std::string original;
    std::string original_name;
    std::optional<OptionScalar> given;  // by the user; a command may change the variable
    bool is_flag = false;
    bool is_repeatable = false;
    bool is_built_in = false;  // --config, and what asks something: no setting of a run
    // Parses and stores a value; returns what follows "'value' is refused" if it is, e.g. ", expected true or false".
    std::function<std::string(const std::string& text)> assign;
    std::function<OptionScalar()> value;
    std::function<void()> clear;  // of a repeatable option: before the user's first value
  };
  struct Positional {
    std::string name;  // "FILE"
    std::string* target;
    std::string help;
  };
  struct Given {
    std::string name;
    std::string value;  // "true" for a bare flag
    std::string place;  // "--name" or "FILE:12: name": begins each message about it
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
  /// Fills the positional arguments.
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
  OptionAnswer answer_;  // to the last question
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  std::vector<std::pair<std::string, std::string>> refused_;  // name, reason
};

/// The number of insertions, deletions and replacements of characters that turn `a` into `b` (Levenshtein distance).
int edit_distance(std::string_view a, std::string_view b);

}  // namespace terngrad
