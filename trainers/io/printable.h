// Text from outside, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace terngrad {

/// `text` without what a terminal acts on or cannot show: control characters (DEL and those of U+0080 to U+009F
/// included) and bytes that are not UTF-8 become \xNN, byte by byte, \t, \r and \n those two characters. What else is
/// valid UTF-8 stays as it is, the backslash too.
std::string printable(std::string_view text);

}  // namespace terngrad
