// Step lists: steps of a run as an option names them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terngrad {

struct Constraint;

/// Most steps of one list.
inline constexpr std::int64_t kMaxListedSteps = 1000000;

/// The steps of a list: items separated by commas, each of which is one of
///
///   N                   this step
///   FIRST:LAST:STRIDE   FIRST, FIRST + STRIDE, FIRST + 2 STRIDE, ... up to LAST, which counts if it is met
///   FIRST:LAST:*FACTOR  FIRST, FIRST FACTOR, FIRST FACTOR^2, ... up to LAST, which counts if it is met
///
/// with decimal integers, STRIDE at least 1, FACTOR at least 2 and FIRST at least 1 beside it. An empty text is an
/// empty list.
/// @returns the steps, increasing
/// @throws InvalidArgument for other texts, steps that do not increase, or more than kMaxListedSteps of them
std::vector<std::int64_t> parse_step_list(const std::string& text);

/// Texts that parse_step_list accepts, with steps from `first` on.
Constraint step_list_from(std::int64_t first);

}  // namespace terngrad
