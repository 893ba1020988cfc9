// Files of options: what --config reads.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

/// A line of such a file: "name = value", or "name" alone.
struct ConfigLine {
  int number = 0;  // from 1
  std::string name;
  std::string value;
  bool has_value = false;
};

/// The lines of `path` that are neither empty nor comments (`#` in front), blanks around names and values removed. Any
/// file that can be read serves, a pipe or a device too; it is read once, to its end, and holds at most 1 MiB.
/// @throws DataError with the file's name and the system's reason if it cannot be read, or is larger
std::vector<ConfigLine> read_config_lines(const std::string& path);

}  // namespace terngrad
