// Formats help texts: captions, names and descriptions in two columns that fit a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

/// An entry of --help, e.g. "--max_steps N (=3000)" and "steps to train".
struct HelpEntry {
  std::string name;
  std::string description;
};

/// A group of entries with a caption.
struct HelpSection {
  std::string caption;
  std::vector<HelpEntry> entries;
};

/// Wraps `text` to lines of at most `width` characters (at least 1) at blanks; longer words are broken after a '|' or
/// '/', else anywhere. Line breaks and leading blanks of the text are kept.
std::vector<std::string> wrap(std::string_view text, int width);

/// Formats the sections one below the other, descriptions in their own column. Lines have at most `width` characters;
/// widths below 40 count as 40.
std::string format_help(const std::vector<HelpSection>& sections, int width);

}  // namespace terngrad
