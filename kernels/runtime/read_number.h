// Parses numbers from option texts.
#pragma once

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>

namespace terngrad {

/// Result of parsing a text as a number.
template <class Number>
struct ReadNumber {
  std::optional<Number> number = {};  // set if the whole text is one finite decimal number
  std::string problem = {};           // explanation if the text is almost such a number
};

/// Parses `text` as a decimal number.
template <class Number>
ReadNumber<Number> read_number(const std::string& text) {
  using Limits = std::numeric_limits<Number>;
  const char* const end_of_text = text.data() + text.size();
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), end_of_text, number);
  const bool is_whole_text = end == end_of_text;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!is_whole_text) return {};
    if (error == std::errc::result_out_of_range) return {.problem = "out of the range of 64-bit floats"};
    if (error != std::errc{}) return {};
    if (!std::isfinite(number)) return {.problem = "not finite"};
    return {.number = number};
  } else {
    if (error == std::errc{} && is_whole_text) return {.number = number};
    if (error == std::errc::result_out_of_range && is_whole_text) {
      return {.problem = text[0] == '-' ? "less than " + std::to_string(Limits::min())
                                        : "greater than " + std::to_string(Limits::max())};
    }
    const std::optional<double> real = read_number<double>(text).number;
    if (real && *real != std::floor(*real)) return {.problem = "not an integer"};
    if (real && text.find_first_of(".eE") != std::string::npos) return {.problem = "not written as an integer"};
    return {};
  }
}

}  // namespace terngrad
