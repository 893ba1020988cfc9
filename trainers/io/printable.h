// Escapes untrusted text for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace terngrad {

/// Escapes control characters (DEL and U+0080 to U+009F included) and bytes that are not UTF-8 as \xNN, byte by byte;
/// tab, carriage return and newline become backslash and letter. Other valid UTF-8 is unchanged, also the backslash.
std::string printable(std::string_view text);

}  // namespace terngrad
