// Step lists: option texts that list steps of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terngrad {

struct Constraint;

/// Maximum number of steps in a list.
inline constexpr std::int64_t kMaxListedSteps = 1000000;

/// Parses a comma-separated list of items, each of which is one of
///
///   N                   this step
///   FIRST:LAST:STRIDE   FIRST, FIRST + STRIDE, FIRST + 2 STRIDE, ... up to LAST at most
///   FIRST:LAST:*FACTOR  FIRST, FIRST FACTOR, FIRST FACTOR^2, ... up to LAST at most
///
/// with decimal integers, STRIDE at least 1, FACTOR at least 2 and then FIRST at least 1. "" is an empty list.
/// @returns the steps in increasing order
/// @throws InvalidArgument for other texts, steps that do not increase, or more than kMaxListedSteps steps
std::vector<std::int64_t> parse_step_list(const std::string& text);

/// Accepts texts for parse_step_list whose steps are at least `first`.
Constraint step_list_from(std::int64_t first);

}  // namespace terngrad
