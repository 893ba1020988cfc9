// Constraints: what an option accepts besides being of its type.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

/// A test of an option's value and the words that say what passes it. Empty functions accept everything.
struct Constraint {
  std::string accepted;                                  // "a number of at least 1"; completes "expected ..."
  std::string accepted_integers = {};                    // the same for an option of integers, if it differs
  std::string value_name;                                // shown by --help, e.g. "1|2|4"; empty: by type
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
/// What `constraint` accepts, if it does so after rounding to float32 too, and if that is finite and makes no number 0:
/// for options that are computed with in fp32.
Constraint also_as_fp32(Constraint constraint);
/// A number for which `accepts` holds. @param accepted  completes "expected ..."
Constraint number_where(std::string accepted, std::function<bool(double)> accepts);
/// A string for which `accepts` holds. @param accepted  completes "expected ..."
Constraint text_where(std::string accepted, std::function<bool(const std::string&)> accepts);

}  // namespace terngrad
