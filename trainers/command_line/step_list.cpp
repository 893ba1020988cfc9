#include "trainers/command_line/step_list.h"

#include <fmt/format.h>

#include <string_view>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/read_number.h"
#include "trainers/command_line/option_constraint.h"

namespace terngrad {
namespace {

[[noreturn]] void refuse(const std::string& item) {
  TERNGRAD_THROW(InvalidArgument, "[step list] '", item, "' is not N, FIRST:LAST:STRIDE or FIRST:LAST:*FACTOR");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// @throws InvalidArgument naming the item unless `text` is an integer from `minimum` on
std::int64_t step_from(const std::string& text, const std::string& item, std::int64_t minimum) {
  const std::optional<std::int64_t> number = read_number<std::int64_t>(text).number;
  if (!number || *number < minimum) refuse(item);
  return *number;
}

void append(std::int64_t step, std::vector<std::int64_t>& steps) {
  TERNGRAD_REQUIRE(steps.empty() || steps.back() < step, "[step list] ", step, " comes after ", steps.back(),
                   "; steps must increase");
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(steps.size()) < kMaxListedSteps, "[step list] more than ", kMaxListedSteps,
                   " steps");
  steps.push_back(step);
}

/// Appends the steps of a range with a stride or a factor.
void append_range(const std::vector<std::string>& parts, const std::string& item, std::vector<std::int64_t>& steps) {
  const bool is_geometric = parts[2].starts_with('*');
  const std::int64_t last = step_from(parts[1], item, 0);
  const std::int64_t by = step_from(is_geometric ? parts[2].substr(1) : parts[2], item, is_geometric ? 2 : 1);
  std::int64_t step = step_from(parts[0], item, is_geometric ? 1 : 0);
  if (step > last) refuse(item);
  for (;;) {
    append(step, steps);
    // This form avoids overflow of the next step.
    if (is_geometric ? step > last / by : by > last - step) return;
    step = is_geometric ? step * by : step + by;
  }
}

}  // namespace

std::vector<std::int64_t> parse_step_list(const std::string& text) {
  std::vector<std::int64_t> steps;
  if (text.empty()) return steps;
  for (const std::string& item : split(text, ',')) {
    const std::vector<std::string> parts = split(item, ':');
    if (parts.size() == 1) {
      append(step_from(item, item, 0), steps);
    } else if (parts.size() == 3) {
      append_range(parts, item, steps);
    } else {
      refuse(item);
    }
  }
  return steps;
}

Constraint step_list_from(std::int64_t first) {
  Constraint constraint = text_where(
      fmt::format("at most {} steps from {} on, increasing, such as 100,200,500, or 1000:5000:500 (from 1000 to 5000 "
                  "by 500), or 10:1000:*10 (each 10 times the one before)",
                  kMaxListedSteps, first),
      [first](const std::string& text) {
        try {
          const std::vector<std::int64_t> steps = parse_step_list(text);
          return steps.empty() || steps.front() >= first;
        } catch (const InvalidArgument&) {
          return false;
        }
      });
  constraint.value_name = "STEPS";
  return constraint;
}

}  // namespace terngrad
