// looks_like: names the kind of a file that is not of the expected kind.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace terngrad {

/// The kind of a file by its first bytes, to end a message: "; it looks like an HTML page". Empty for an unknown kind.
/// @param beginning  the first 300 bytes or more, or the whole file
std::string looks_like(std::span<const std::uint8_t> beginning);

}  // namespace terngrad
