// Reads files of options for --config.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

/// A line of a config file: "name = value", or "name" alone.
struct ConfigLine {
  int number = 0;  // line number, from 1
  std::string name;
  std::string value;
  bool has_value = false;
};

/// The lines of `path` except empty lines and comments (`#` in front), without blanks around names and values. The file
/// may also be a pipe or device; it is read once, to its end, and may have at most 1 MiB.
/// @throws DataError with the file's name and the reason if it cannot be read or is larger
std::vector<ConfigLine> read_config_lines(const std::string& path);

}  // namespace terngrad
