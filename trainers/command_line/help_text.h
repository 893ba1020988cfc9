// Help texts: captions, names and descriptions in two columns that fit a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

/// A line of --help, e.g. "--max_steps N (=3000)" and "steps to train".
struct HelpEntry {
  std::string name;
  std::string description;
};

struct HelpSection {
  std::string caption;
  std::vector<HelpEntry> entries;
};

/// `text` in lines of at most `width` characters (at least 1), broken at blanks; a word that is longer is broken behind
/// a '|' or '/', or where it must be. Lines of the text itself stay apart, blanks in front of them are kept.
std::vector<std::string> wrap(std::string_view text, int width);

/// The sections one below the other, descriptions in their own column. No line is longer than `width`, which is
/// taken to be at least 40.
std::string format_help(const std::vector<HelpSection>& sections, int width);

}  // namespace terngrad
