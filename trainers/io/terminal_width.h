// The width of the terminal that a stream writes to.
#pragma once

#include <cstdio>
#include <optional>

namespace terngrad {

/// Columns of the terminal behind `stream`; nothing if it is no terminal, or one that does not know.
std::optional<int> terminal_width(std::FILE* stream);

/// Columns for text that is to be read, as --help: COLUMNS of the environment if it is a number above 0, else those of
/// the terminal behind `stream`, else 80; at least 40 and at most 120.
int text_width(std::FILE* stream);

}  // namespace terngrad
