// The width of the terminal that a stream writes to.
#pragma once

#include <cstdio>
#include <optional>

namespace terngrad {

/// Columns of the terminal behind `stream`; nullopt if it is not a terminal or reports no width.
std::optional<int> terminal_width(std::FILE* stream);

/// Columns to wrap human-readable text to, such as --help: the environment's COLUMNS if it is a number above 0, else
/// the width of the terminal behind `stream`, else 80; at least 40 and at most 120.
int text_width(std::FILE* stream);

}  // namespace terngrad
