// The lines of a text file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace terngrad {

/// A line of a text file.
struct TextLine {
  std::size_t number = 1;  // line number in the file, from 1
  std::string_view text;   // without \n or \r\n
};

/// The lines that are not empty, without a leading UTF-8 byte-order mark. They refer to `content`.
inline std::vector<TextLine> text_lines(std::span<const std::uint8_t> content) {
  std::vector<TextLine> lines;
  std::string_view rest(reinterpret_cast<const char*>(content.data()), content.size());
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  for (std::size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back({.number = number, .text = line});
  }
  return lines;
}

}  // namespace terngrad
