#include "trainers/command_line/option_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace terngrad {

Constraint one_of(std::initializer_list<long long> numbers) {
  std::vector<long long> values(numbers);
  Constraint constraint;
  constraint.accepted = fmt::format("one of {}", fmt::join(values, ", "));
  constraint.value_name = fmt::format("{}", fmt::join(values, "|"));
  constraint.accepts_number = [values](double number) {
    return std::ranges::any_of(values, [&](long long value) { return static_cast<double>(value) == number; });
  };
  return constraint;
}

Constraint one_of(std::vector<std::string> words) {
  Constraint constraint;
  std::vector<std::string> shown;
  std::ranges::copy_if(words, std::back_inserter(shown), [](const std::string& word) { return !word.empty(); });
  constraint.accepted = fmt::format("one of {}", fmt::join(shown, ", "));
  constraint.value_name = fmt::format("{}", fmt::join(shown, "|"));
  constraint.accepts_text = [words = std::move(words)](const std::string& text) {
    return std::ranges::find(words, text) != words.end();
  };
  return constraint;
}

Constraint number_where(std::string accepted, std::function<bool(double)> accepts) {
  Constraint constraint;
  constraint.accepted = std::move(accepted);
  constraint.accepts_number = std::move(accepts);
  return constraint;
}

Constraint text_where(std::string accepted, std::function<bool(const std::string&)> accepts) {
  Constraint constraint;
  constraint.accepted = std::move(accepted);
  constraint.accepts_text = std::move(accepts);
  return constraint;
}

namespace {

/// @param words  text after "a number" and "an integer" in messages
Constraint range(const std::string& words, std::function<bool(double)> accepts) {
  Constraint constraint = number_where("a number " + words, std::move(accepts));
  constraint.accepted_integers = "an integer " + words;
  return constraint;
}

}  // namespace

Constraint at_least(double minimum) {
  return range(fmt::format("of at least {}", minimum), [=](double number) { return number >= minimum; });
}

Constraint greater_than(double minimum) {
  return range(fmt::format("greater than {}", minimum), [=](double number) { return number > minimum; });
}

Constraint in_range(double minimum, double maximum) {
  return range(fmt::format("from {} to {}", minimum, maximum),
               [=](double number) { return number >= minimum && number <= maximum; });
}

Constraint from_up_to(double minimum, double limit) {
  return range(fmt::format("from {} up to, but not, {}", minimum, limit),
               [=](double number) { return number >= minimum && number < limit; });
}

Constraint also_as_fp32(Constraint constraint) {
  constraint.accepted += " (also as a 32-bit float)";
  constraint.accepts_number = [accepts = std::move(constraint.accepts_number)](double number) {
    // The conversion is undefined beyond the range of float.
    if (!(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) return false;
    const auto rounded = static_cast<double>(static_cast<float>(number));
    if (rounded == 0 && number != 0) return false;
    return !accepts || (accepts(number) && accepts(rounded));
  };
  return constraint;
}

}  // namespace terngrad
