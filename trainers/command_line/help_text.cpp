#include "trainers/command_line/help_text.h"

#include <algorithm>
#include <cstddef>

namespace terngrad {
namespace {

constexpr int kMinHelpWidth = 40;
constexpr int kIndent = 2;
constexpr int kGap = 2;  // between the columns

/// Number of characters of `text` that go into the first line. @param text  longer than `width`
std::size_t line_length(std::string_view text, std::size_t width) {
  const std::size_t blank = text.rfind(' ', width);
  if (blank != std::string_view::npos && text.find_first_not_of(' ') < blank) return blank;
  const std::size_t joint = text.find_last_of("|/", width - 1);
  return joint != std::string_view::npos && joint > 0 ? joint + 1 : width;
}

void wrap_line(std::string_view text, std::size_t width, std::vector<std::string>& lines) {
  while (text.size() > width) {
    const std::size_t length = line_length(text, width);
    lines.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  lines.emplace_back(text);
}

std::string blanks(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

/// Appends an entry. If the name reaches into the second column, the description begins below it.
void append_entry(const HelpEntry& entry, int column, int width, std::string& text) {
  std::vector<std::string> names = wrap(entry.name, width - kIndent);
  for (std::string& line : names) line.insert(0, blanks(kIndent));
  bool begins_below = names.size() > 1 || static_cast<int>(names.back().size()) + kGap > column;
  if (!begins_below) names.back().resize(static_cast<std::size_t>(column), ' ');
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : "\n") + names[i];
  for (const std::string& line : wrap(entry.description, width - column)) {
    if (begins_below) text += "\n" + blanks(column);
    text += line;
    begins_below = true;
  }
  text += "\n";
}

}  // namespace

std::vector<std::string> wrap(std::string_view text, int width) {
  std::vector<std::string> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    wrap_line(text.substr(0, end), static_cast<std::size_t>(std::max(width, 1)), lines);
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string format_help(const std::vector<HelpSection>& sections, int width) {
  width = std::max(width, kMinHelpWidth);
  int longest = 0;
  for (const HelpSection& section : sections) {
    for (const HelpEntry& entry : section.entries) longest = std::max(longest, static_cast<int>(entry.name.size()));
  }
  const int column = std::min(kIndent + longest + kGap, width * 2 / 5);
  std::string text;
  for (const HelpSection& section : sections) {
    text += "\n" + section.caption + ":\n";
    for (const HelpEntry& entry : section.entries) append_entry(entry, column, width, text);
  }
  return text;
}

}  // namespace terngrad
