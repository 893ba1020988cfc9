// Constraints: restrictions of an option's values beyond its type.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

/// A test of an option's value, and its description for messages. Empty functions accept everything.
struct Constraint {
  std::string accepted;                                  // completes "expected ...": "a number of at least 1"
  std::string accepted_integers = {};                    // the same for integer options, if it differs
  std::string value_name;                                // placeholder in --help, e.g. "1|2|4"; empty: chosen by type
  std::function<bool(double)> accepts_number;            // for integers and doubles
  std::function<bool(const std::string&)> accepts_text;  // for strings
};

/// One of the listed numbers.
Constraint one_of(std::initializer_list<long long> numbers);
/// One of the listed words.
Constraint one_of(std::vector<std::string> words);
/// minimum <= value.
Constraint at_least(double minimum);
/// minimum < value.
Constraint greater_than(double minimum);
/// minimum <= value <= maximum.
Constraint in_range(double minimum, double maximum);
/// minimum <= value < limit.
Constraint from_up_to(double minimum, double limit);
/// Accepts what `constraint` accepts before and after rounding to float32, if the rounded number is finite and does not
/// underflow to 0. For options that are used in fp32 computations.
Constraint also_as_fp32(Constraint constraint);
/// A number for which `accepts` returns true. @param accepted  completes "expected ..."
Constraint number_where(std::string accepted, std::function<bool(double)> accepts);
/// A string for which `accepts` returns true. @param accepted  completes "expected ..."
Constraint text_where(std::string accepted, std::function<bool(const std::string&)> accepts);

}  // namespace terngrad
