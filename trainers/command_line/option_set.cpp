#include "trainers/command_line/option_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/read_number.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/config_file.h"
#include "trainers/command_line/help_text.h"
#include "trainers/command_line/option_list.h"

namespace terngrad {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kGeneralGroup = "General";

template <class Number>
std::string type_words() {
  if constexpr (std::is_floating_point_v<Number>) return "a finite number";
  return fmt::format("an integer from {} to {}", std::numeric_limits<Number>::min(),
                     std::numeric_limits<Number>::max());
}

std::string scalar_text(const OptionScalar& scalar) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) return value;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) return fmt::format("{}", fmt::join(value, " "));
        if constexpr (std::is_arithmetic_v<Value>) return fmt::format("{}", value);
      },
      scalar);
}

const char* type_name(const OptionScalar& scalar) {
  if (std::holds_alternative<std::string>(scalar)) return "text";
  return std::holds_alternative<double>(scalar) ? "number" : "integer";
}

std::string expected(const std::string& words) { return ", expected " + words; }

/// The value of a flag, in the words of TensorFlow's flags too; none for another word.
std::optional<bool> read_flag(std::string_view text) {
  for (const char* word : {"true", "True", "TRUE", "1"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE", "0"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

// Only long options without abbreviations, so that "-1" is always a value.
constexpr int kStyle = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                       po::command_line_style::long_allow_next;

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

OptionSet::OptionSet(std::string usage) : usage_(std::move(usage)) {
  group(std::string(kGeneralGroup));
  add("config", &config_files_,
      "read options from FILE: lines 'name = value'; repeatable, a later file wins, and the command line over all");
  options_.back().value_name = "FILE";
  add_flag("help", &help_, "print this text and exit");
  add_flag("version", &version_, "print the version and what is built in, and exit");
  add_question("list_options_json", "print what there is to know of every option, for programs, and exit",
               [this](int) { return option_list_json(*this); });
  for (Option& option : options_) option.is_built_in = true;
  for (const char* name : {"help", "version"}) find(name)->value_name.clear();
  group("Options");
}

void OptionSet::group(std::string caption) { current_group_ = std::move(caption); }

OptionSet::Option& OptionSet::declare(std::string name, std::string help, std::string value_name) {
  TERNGRAD_REQUIRE(!name.empty() && find(name) == nullptr, "[OptionSet] the option '", name, "' is declared already");
  Option option;
  option.name = std::move(name);
  option.group = current_group_;
  option.help = std::move(help);
  option.value_name = std::move(value_name);
  return options_.emplace_back(std::move(option));
}

OptionDeclaration OptionSet::declared_last() {
  Option& option = options_.back();
  option.default_value = option.value();
  return {*this, options_.size() - 1};
}

OptionDeclaration OptionSet::declaration(std::string_view name) {
  return {*this, static_cast<std::size_t>(&declared(name) - options_.data())};
}

template <class Number>
OptionDeclaration OptionSet::add_number(std::string name, Number* target, std::string help, Constraint constraint) {
  const auto accepts = [check = constraint.accepts_number](Number number) {
    return !check || check(static_cast<double>(number));
  };
  constexpr bool kIsInteger = !std::is_floating_point_v<Number>;
  const std::string& words =
      kIsInteger && !constraint.accepted_integers.empty() ? constraint.accepted_integers : constraint.accepted;
  TERNGRAD_REQUIRE(accepts(*target), "[OptionSet] the default ", *target, " of '", name, "' is not ",
                   constraint.accepted);
  Option& option =
      declare(std::move(name), std::move(help), constraint.value_name.empty() ? "N" : constraint.value_name);
  option.accepted = words;
  option.assign = [=, words = words.empty() ? type_words<Number>() : words](const std::string& text) -> std::string {
    const ReadNumber<Number> read = read_number<Number>(text);
    if (!read.problem.empty()) return ": " + read.problem + "; expected " + words;
    if (!read.number || !accepts(*read.number)) return expected(words);
    *target = *read.number;
    return {};
  };
  option.value = [target]() -> OptionScalar {
    if constexpr (std::is_same_v<Number, std::int32_t>) return std::int64_t{*target};
    if constexpr (!std::is_same_v<Number, std::int32_t>) return *target;
  };
  return declared_last();
}

OptionDeclaration OptionSet::add(std::string name, std::int32_t* target, std::string help, Constraint constraint) {
  return add_number(std::move(name), target, std::move(help), std::move(constraint));
}
OptionDeclaration OptionSet::add(std::string name, std::int64_t* target, std::string help, Constraint constraint) {
  return add_number(std::move(name), target, std::move(help), std::move(constraint));
}
OptionDeclaration OptionSet::add(std::string name, std::uint64_t* target, std::string help, Constraint constraint) {
  return add_number(std::move(name), target, std::move(help), std::move(constraint));
}
OptionDeclaration OptionSet::add(std::string name, double* target, std::string help, Constraint constraint) {
  return add_number(std::move(name), target, std::move(help), std::move(constraint));
}

OptionDeclaration OptionSet::add(std::string name, std::string* target, std::string help, Constraint constraint) {
  TERNGRAD_REQUIRE(!constraint.accepts_text || constraint.accepts_text(*target), "[OptionSet] the default '", *target,
                   "' of '", name, "' is not ", constraint.accepted);
  Option& option =
      declare(std::move(name), std::move(help), constraint.value_name.empty() ? "TEXT" : constraint.value_name);
  option.accepted = constraint.accepted;
  option.assign = [target, constraint = std::move(constraint)](const std::string& text) -> std::string {
    if (constraint.accepts_text && !constraint.accepts_text(text)) return expected(constraint.accepted);
    *target = text;
    return {};
  };
  option.value = [target]() -> OptionScalar { return *target; };
  return declared_last();
}

OptionDeclaration OptionSet::add(std::string name, std::vector<std::string>* target, std::string help,
                                 Constraint constraint) {
  Option& option =
      declare(std::move(name), std::move(help), constraint.value_name.empty() ? "TEXT" : constraint.value_name);
  option.accepted = constraint.accepted;
  option.is_repeatable = true;
  option.assign = [target, constraint = std::move(constraint)](const std::string& text) -> std::string {
    if (constraint.accepts_text && !constraint.accepts_text(text)) return expected(constraint.accepted);
    target->push_back(text);
    return {};
  };
  option.value = [target]() -> OptionScalar { return *target; };
  option.clear = [target] { target->clear(); };
  return declared_last();
}

OptionDeclaration OptionSet::add_words(std::string name, std::string help, std::vector<std::string> words,
                                       std::function<void(std::size_t index)> choose,
                                       std::function<std::string()> word) {
  const Constraint constraint = one_of(words);
  Option& option = declare(std::move(name), std::move(help), constraint.value_name);
  option.accepted = constraint.accepted;
  option.assign = [words = std::move(words), choose = std::move(choose),
                   accepted = constraint.accepted](const std::string& text) -> std::string {
    const auto found = std::ranges::find(words, text);
    if (found == words.end()) return expected(accepted);
    choose(static_cast<std::size_t>(found - words.begin()));
    return {};
  };
  option.value = [word = std::move(word)]() -> OptionScalar { return word(); };
  return declared_last();
}

OptionDeclaration OptionSet::add_flag(std::string name, bool* target, std::string help) {
  Option& option = declare(std::move(name), std::move(help), "[=true|false]");
  option.is_flag = true;
  option.assign = [target](const std::string& text) -> std::string {
    const std::optional<bool> value = read_flag(text);
    if (!value) return expected("true or false");
    *target = *value;
    return {};
  };
  option.value = [target]() -> OptionScalar { return *target; };
  return declared_last();
}

void OptionSet::add_question(std::string name, std::string help, OptionAnswer answer) {
  Option& option = declare(std::move(name), std::move(help), "");
  option.is_flag = true;
  option.is_built_in = true;
  option.assign = [this, answer = std::move(answer)](const std::string& text) -> std::string {
    const std::optional<bool> value = read_flag(text);
    if (!value) return expected("true or false");
    answer_ = *value ? answer : OptionAnswer{};
    return {};
  };
  option.value = []() -> OptionScalar { return false; };
  declared_last();
}

void OptionSet::add_positional(std::string name, std::string* target, std::string help) {
  positionals_.push_back({std::move(name), target, std::move(help)});
}

void OptionSet::alias(std::string alias, std::string name) {
  TERNGRAD_REQUIRE(find(alias) == nullptr, "[OptionSet] the option '", alias, "' is declared already");
  TERNGRAD_REQUIRE(find(name) != nullptr, "[OptionSet] no option '", name, "' to give another name");
  aliases_.emplace_back(std::move(alias), std::move(name));
}

void OptionSet::refuse(std::string name, std::string reason) {
  TERNGRAD_REQUIRE(find(name) == nullptr, "[OptionSet] the option '", name, "' is declared already");
  refused_.emplace_back(std::move(name), std::move(reason));
}

const OptionSet::Option* OptionSet::find(std::string_view name) const {
  for (const auto& [other_name, real_name] : aliases_) {
    if (other_name == name) name = real_name;
  }
  const auto option = std::ranges::find(options_, name, &Option::name);
  return option == options_.end() ? nullptr : &*option;
}

OptionSet::Option* OptionSet::find(std::string_view name) {
  return const_cast<Option*>(std::as_const(*this).find(name));
}

const OptionSet::Option& OptionSet::declared(std::string_view name) const {
  const Option* option = find(name);
  TERNGRAD_REQUIRE(option != nullptr, "[OptionSet] no option '", name, "'");
  return *option;
}

std::string OptionSet::nearest(std::string_view name) const {
  std::string best;
  // A name that differs in more than a third of its characters is not suggested.
  int best_distance = std::max(2, static_cast<int>(name.size()) / 3) + 1;
  const auto consider = [&](const std::string& candidate) {
    const int distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  };
  for (const Option& option : options_) consider(option.name);
  for (const auto& [other_name, real_name] : aliases_) consider(other_name);
  return best;
}

void OptionSet::refuse_unknown(const Given& given, std::string_view prefix) const {
  for (const auto& [name, reason] : refused_) {
    if (name == given.name) TERNGRAD_THROW(UsageError, given.place, ": refused: ", reason);
  }
  const std::string close = nearest(given.name);
  TERNGRAD_THROW(UsageError, given.place, ": unknown option; ",
                 close.empty() ? "--help lists all options" : fmt::format("did you mean {}{}?", prefix, close));
}

std::vector<std::string> OptionSet::join_flags(std::vector<std::string> arguments) const {
  const auto find_flag = [&](const std::string& argument, std::string_view prefix) -> const Option* {
    const Option* option = argument.starts_with(prefix) ? find(argument.substr(prefix.size())) : nullptr;
    return option != nullptr && option->is_flag ? option : nullptr;
  };
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = std::move(arguments[i]);
    if (find_flag(argument, "--") != nullptr) {
      const bool has_value = i + 1 < arguments.size() && read_flag(arguments[i + 1]);
      argument += "=" + (has_value ? arguments[++i] : "true");
    } else if (const Option* option = find_flag(argument, "--no"); option != nullptr && !option->is_built_in) {
      argument = "--" + option->name + "=false";
    }
    joined.push_back(std::move(argument));
  }
  return joined;
}

std::vector<OptionSet::Given> OptionSet::read_command_line(int argc, const char* const* argv,
                                                           ParseResult& result) const {
  po::options_description description;
  for (const Option& option : options_) description.add_options()(option.name.c_str(), po::value<std::string>());
  for (const auto& alias : aliases_) description.add_options()(alias.first.c_str(), po::value<std::string>());

  const std::vector<std::string> arguments = join_flags({argv + std::min(argc, 1), argv + argc});
  po::parsed_options parsed(&description);
  try {
    parsed = po::command_line_parser(arguments).options(description).style(kStyle).allow_unregistered().run();
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    TERNGRAD_THROW(UsageError, name.empty() ? error.what() : name + ": needs a value, as in " + name + " VALUE");
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  std::vector<Given> all;
  for (const po::option& each : parsed.options) {
    const std::string token = each.original_tokens.empty() ? "" : each.original_tokens[0];
    if (each.position_key >= 0 || !token.starts_with("--")) {
      const std::string text = token.empty() && !each.value.empty() ? each.value[0] : token;
      if (text == "-h") {
        result.help_requested = true;
        continue;
      }
      const bool is_dashed = text.size() > 1 && text[0] == '-';
      if (!is_dashed && result.num_positionals < positionals_.size()) {
        *positionals_[result.num_positionals++].target = text;
        continue;
      }
      TERNGRAD_THROW(UsageError, "unexpected argument '", text, "': expected --name value or --name=value",
                     is_dashed ? "; names begin with two dashes" : "");
    }
    Given given{.name = each.string_key, .value = {}, .place = {}};
    const Option* option = find(given.name);
    if (each.unregistered || option == nullptr) {
      given.name = token.substr(2, token.find('=') - 2);
      given.place = "--" + given.name;
      refuse_unknown(given, "--");
    }
    given.place = "--" + given.name;
    if (!each.value.empty()) given.value = each.value[0];
    // "--..." in place of a value means a forgotten value; such a value must be given with '='.
    if (token.find('=') == std::string::npos && given.value.starts_with("--")) {
      TERNGRAD_THROW(UsageError, given.place, ": needs a value, found '", given.value, "'");
    }
    all.push_back(std::move(given));
  }
  return all;
}

void OptionSet::require_positionals(std::size_t num_given) const {
  if (num_given == positionals_.size()) return;
  std::string all;
  for (const Positional& each : positionals_) all += (all.empty() ? "" : " ") + each.name;
  TERNGRAD_THROW(UsageError, positionals_[num_given].name, " is missing: expected ", all, "; --help says more");
}

std::vector<OptionSet::Given> OptionSet::read_config_file(const std::string& path) const {
  std::vector<ConfigLine> lines;
  try {
    lines = read_config_lines(path);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--config: ", error.what());
  }
  std::vector<Given> all;
  for (const ConfigLine& line : lines) {
    Given given{.name = line.name,
                .value = line.has_value ? line.value : "true",
                .place = fmt::format("{}:{}: {}", path, line.number, line.name)};
    const Option* option = find(given.name);
    if (option == nullptr) refuse_unknown(given, "");
    if (option->is_built_in) TERNGRAD_THROW(UsageError, given.place, ": belongs on the command line");
    if (!line.has_value && !option->is_flag) {
      TERNGRAD_THROW(UsageError, given.place, ": needs a value, as in ", given.name, " = VALUE");
    }
    all.push_back(std::move(given));
  }
  return all;
}

void OptionSet::apply(const std::vector<Given>& given, Repeated repeated) {
  std::vector<const Option*> seen;
  for (const Given& each : given) {
    Option& option = *find(each.name);
    const bool is_repeated = std::ranges::find(seen, &option) != seen.end();
    if (is_repeated && !option.is_repeatable && repeated == Repeated::kRefused) {
      TERNGRAD_THROW(UsageError, each.place, ": given twice in this file, the second time with '", each.value,
                     "'; expected once");
    }
    if (!is_repeated && option.clear) option.clear();
    seen.push_back(&option);
    const std::string refusal = option.assign(each.value);
    if (!refusal.empty()) TERNGRAD_THROW(UsageError, each.place, ": '", each.value, "' is refused", refusal);
    option.given = option.value();
  }
}

ParseResult OptionSet::parse(int argc, const char* const* argv) {
  ParseResult result;
  const std::vector<Given> command_line = read_command_line(argc, argv, result);
  apply(command_line, Repeated::kLastCounts);
  if (!config_files_.empty()) {
    // The command line gives the names of the files, and then overrides their values.
    for (const std::string& path : config_files_) apply(read_config_file(path), Repeated::kRefused);
    apply(command_line, Repeated::kLastCounts);
  }
  result.help_requested = result.help_requested || help_;
  result.version_requested = version_;
  result.answer = answer_;
  if (!result.help_requested && !result.version_requested && !result.answer) {
    require_positionals(result.num_positionals);
  }
  return result;
}

bool OptionSet::was_set(std::string_view name) const { return declared(name).given.has_value(); }

bool OptionSet::was_changed(std::string_view name) const {
  const Option& option = declared(name);
  return option.given && *option.given != option.default_value;
}

void OptionSet::set_default(std::string_view name, const std::string& value) {
  Option* option = find(name);
  TERNGRAD_REQUIRE(option != nullptr && !option->is_repeatable, "[OptionSet] no single-valued option '", name, "'");
  const std::string user_text = scalar_text(option->value());
  const std::string refusal = option->assign(value);
  TERNGRAD_REQUIRE(refusal.empty(), "[OptionSet] the default '", value, "' of '", name, "' is refused", refusal);
  option->default_value = option->value();
  if (option->given) option->assign(user_text);
}

HelpEntry OptionSet::help_entry(const Option& option) const {
  HelpEntry entry{.name = "--" + option.name, .description = option.help};
  if (option.name == "help") entry.name = "-h, --help";
  for (const auto& [other_name, real_name] : aliases_) {
    if (real_name == option.name) entry.description += fmt::format(" (also --{})", other_name);
  }
  if (!option.value_name.empty()) entry.name += " " + option.value_name;
  if (option.is_built_in) return entry;
  const std::string default_text = scalar_text(option.default_value);
  const char* const nothing = option.is_repeatable ? "none" : "''";
  entry.name += fmt::format(" (={})", default_text.empty() ? nothing : default_text);
  return entry;
}

std::string OptionSet::help(int width) const {
  std::vector<HelpSection> sections;
  if (!positionals_.empty()) sections.push_back({"Arguments", {}});
  for (const Positional& each : positionals_) sections[0].entries.push_back({each.name, each.help});
  HelpSection general{std::string(kGeneralGroup), {}};
  for (const Option& option : options_) {
    HelpSection* section = &general;
    if (option.group != kGeneralGroup) {
      const auto found = std::ranges::find(sections, option.group, &HelpSection::caption);
      section = found != sections.end() ? &*found : &sections.emplace_back(HelpSection{option.group, {}});
    }
    section->entries.push_back(help_entry(option));
  }
  sections.push_back(std::move(general));
  std::string text;
  for (const std::string& line : wrap(usage_, width)) text += line + "\n";
  return text + format_help(sections, width);
}

std::vector<OptionValue> OptionSet::values() const {
  std::vector<OptionValue> all;
  for (const Option& option : options_) {
    if (!option.is_built_in)
      all.push_back({option.name, option.value(), option.given.has_value(), option.role != OptionRole::kPlace});
  }
  return all;
}

const OptionNeed* OptionSet::find_unmet(const Option& option) {
  if (!option.given || *option.given == option.default_value) return nullptr;
  const auto unmet = std::ranges::find_if(option.needs, [](const OptionNeed& need) { return !need.holds(); });
  return unmet == option.needs.end() ? nullptr : &*unmet;
}

void OptionSet::require_needs() const {
  for (const Option& option : options_) {
    const OptionNeed* const unmet = find_unmet(option);
    if (unmet == nullptr) continue;
    const std::string default_text = scalar_text(option.default_value);
    const std::string detail = unmet->detail ? unmet->detail() : "";
    TERNGRAD_THROW(UsageError, "--", option.name, option.is_flag ? "=" : " ", scalar_text(*option.given), ": needs ",
                   unmet->what, detail.empty() ? "" : "; " + detail,
                   default_text.empty() ? "" : "; accepted here: " + default_text + ", its default");
  }
}

std::optional<IdentityEntry> OptionSet::identity_entry(const Option& option, const OptionIdentity& identity) {
  const std::optional<std::string> value = identity.value ? identity.value() : scalar_text(option.value());
  if (!value) return std::nullopt;
  IdentityEntry entry;
  entry.key = identity.key.empty() ? option.name : identity.key;
  entry.name = identity.name.empty() ? "--" + option.name : identity.name;
  entry.value = *value;
  entry.is_same = identity.is_same;
  entry.shown = identity.shown;
  entry.advice = identity.advice;
  return entry;
}

RunIdentity OptionSet::identity() const {
  RunIdentity entries;
  RunIdentity last;
  const auto add = [&](const Option& option, const OptionIdentity& identity) {
    std::optional<IdentityEntry> entry = identity_entry(option, identity);
    if (entry) (identity.is_compared_last ? last : entries).push_back(*std::move(entry));
  };
  for (const Option& option : options_) {
    if (option.is_built_in || option.role != OptionRole::kResult) continue;
    if (option.identity.empty()) add(option, {});
    for (const OptionIdentity& identity : option.identity) add(option, identity);
  }
  std::ranges::move(last, std::back_inserter(entries));
  return entries;
}

std::vector<OptionDescription> OptionSet::descriptions() const {
  std::vector<OptionDescription> all;
  for (const Option& option : options_) {
    if (option.is_built_in) continue;
    OptionDescription description;
    description.name = option.name;
    description.group = option.group;
    description.help = option.help;
    description.type = option.is_flag ? "flag" : option.is_repeatable ? "list" : type_name(option.default_value);
    description.accepted = option.accepted;
    description.value_name = option.value_name;
    description.default_text = scalar_text(option.default_value);
    for (const auto& [other_name, real_name] : aliases_) {
      if (real_name == option.name) description.aliases.push_back(other_name);
    }
    description.role = option.role;
    description.is_compared =
        option.is_compared && option.role != OptionRole::kReport && option.role != OptionRole::kPlace;
    if (option.role == OptionRole::kResult && option.identity.empty()) description.entries.push_back(option.name);
    for (const OptionIdentity& identity : option.identity) {
      description.entries.push_back(identity.key.empty() ? option.name : identity.key);
    }
    for (const OptionNeed& need : option.needs) description.needs.push_back(need.what);
    description.original = option.original;
    description.original_name = option.original_name.empty() ? option.name : option.original_name;
    all.push_back(std::move(description));
  }
  return all;
}

}  // namespace terngrad
